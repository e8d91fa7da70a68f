#include "osdn/report/step_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "support/temp_dir.h"

namespace osdn::report {
namespace {

using testing::HasSubstr;

// `run` marks who wrote the record.
StepRecord record(std::int64_t step, double run = 0) {
  return {.step = step,
          .loss = 1.0 / static_cast<double>(step + 3),
          .grad_norm = run,
          .lr = 1e-3,
          .tokens = 64 * step,
          .tokens_per_s = 1000,
          .valid_labels = 63,
          .time = 1.5e9};
}

void append_steps(StepLog& log, std::int64_t first, std::int64_t last,
                  double run) {
  for (std::int64_t step = first; step <= last; ++step) {
    ASSERT_TRUE(log.append(record(step, run))) << log.problem();
  }
}

std::vector<std::int64_t> steps_of(const std::filesystem::path& path) {
  std::vector<std::int64_t> steps;
  for (const StepRecord& entry : read_step_log(path)) {
    steps.push_back(entry.step);
  }
  return steps;
}

std::vector<std::int64_t> range(std::int64_t first, std::int64_t last) {
  std::vector<std::int64_t> steps;
  for (std::int64_t step = first; step <= last; ++step) {
    steps.push_back(step);
  }
  return steps;
}

TEST(StepLog, values_come_back_bit_for_bit) {
  const test::TempDir dir;
  StepRecord written = record(7);
  written.loss = 0.1 + 0.2;
  written.lr = 4.9406564584124654e-324;
  written.tokens = std::int64_t{1} << 53;
  written.skipped = true;
  written.validation = ValidationRecord{std::nextafter(3.0, 4.0), 4096, 1.25};
  {
    StepLog log(dir / "log.jsonl");
    EXPECT_TRUE(log.append(written));
  }
  const auto records = read_step_log(dir / "log.jsonl");
  ASSERT_EQ(records.size(), 1U);
  const StepRecord& read = records[0];
  EXPECT_EQ(read.loss, written.loss);
  EXPECT_EQ(read.lr, written.lr);
  EXPECT_EQ(read.tokens, written.tokens);
  EXPECT_EQ(read.valid_labels, written.valid_labels);
  EXPECT_EQ(read.time, written.time);
  EXPECT_TRUE(read.skipped);
  ASSERT_TRUE(read.validation.has_value());
  EXPECT_EQ(read.validation->loss, written.validation->loss);
  EXPECT_EQ(read.validation->tokens, 4096);
  EXPECT_EQ(read.validation->seconds, 1.25);
}

TEST(StepLog, a_loss_that_is_no_number_is_null) {
  StepRecord bad = record(1);
  bad.loss = std::numeric_limits<double>::quiet_NaN();
  bad.grad_norm = std::numeric_limits<double>::infinity();
  EXPECT_THAT(to_json(bad), HasSubstr(R"("loss":null,"grad_norm":null)"));
  const test::TempDir dir;
  StepLog(dir / "log.jsonl").append(bad);
  EXPECT_TRUE(std::isnan(read_step_log(dir / "log.jsonl").at(0).loss));
}

TEST(StepLog, O1_killed_at_212_and_resumed_from_200_has_each_step_once) {
  const test::TempDir dir;
  const auto path = dir / "log.jsonl";
  {
    StepLog log(path);
    append_steps(log, 1, 212, 1);
  }
  {
    StepLog log(path, 200);
    EXPECT_EQ(log.opening().kept, 200);
    EXPECT_EQ(log.opening().rewound, 12);
    EXPECT_EQ(log.opening().damaged, 0);
    EXPECT_EQ(log.opening().last_step, 200);
    append_steps(log, 201, 220, 2);
  }
  EXPECT_EQ(steps_of(path), range(1, 220));
  const auto records = read_step_log(path);
  EXPECT_EQ(records[199].grad_norm, 1);
  EXPECT_EQ(records[200].grad_norm, 2);
  // Even without the reader's rule: as many lines as steps.
  const std::string text = read_file(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 220);
}

TEST(StepLog, O1_rewound_records_are_kept_beside_the_log) {
  const test::TempDir dir;
  const auto path = dir / "log.jsonl";
  {
    StepLog log(path);
    append_steps(log, 1, 5, 1);
  }
  {
    StepLog log(path, 3);
    append_steps(log, 4, 6, 2);
  }
  { StepLog log(path, 5); }
  EXPECT_EQ(rewound_path(path), dir / "log.rewound.jsonl");
  const std::string mark_3 = "{\"rewound_to\":3,\"records\":2,\"damaged\":0}\n";
  const std::string mark_5 = "{\"rewound_to\":5,\"records\":1,\"damaged\":0}\n";
  EXPECT_EQ(read_file(rewound_path(path)),
            mark_3 + to_json(record(4, 1)) + "\n" + to_json(record(5, 1)) +
                "\n" + mark_5 + to_json(record(6, 2)) + "\n");
}

TEST(StepLog, O1_a_run_from_the_start_rewinds_everything) {
  const test::TempDir dir;
  const auto path = dir / "log.jsonl";
  {
    StepLog log(path);
    append_steps(log, 0, 4, 1);
  }
  StepLog log(path);
  EXPECT_EQ(log.opening().rewound, 5);
  EXPECT_FALSE(log.opening().last_step.has_value());
  append_steps(log, 0, 1, 2);
  EXPECT_EQ(steps_of(path), range(0, 1));
}

TEST(StepLog, O1_a_step_cannot_be_logged_twice) {
  const test::TempDir dir;
  StepLog log(dir / "log.jsonl");
  append_steps(log, 1, 3, 1);
  EXPECT_THROW(log.append(record(3)), Error);
  EXPECT_THROW(log.append(record(1)), Error);
  EXPECT_EQ(steps_of(dir / "log.jsonl"), range(1, 3));
}

TEST(StepLog, O1_an_owed_validation_is_null_and_is_put_into_its_record) {
  const test::TempDir folder;
  const auto path = folder / "log.jsonl";
  StepRecord cut = record(3);
  cut.validation_owed = true;
  {
    StepLog log(path);
    append_steps(log, 1, 2, 0);
    ASSERT_TRUE(log.append(cut));
  }
  EXPECT_THAT(read_file(path), HasSubstr("\"validation\":null"));
  {
    StepLog log(path, 3);
    ASSERT_TRUE(log.opening().owed);
    EXPECT_EQ(to_json(*log.opening().owed), to_json(cut));
    StepRecord settled = cut;
    settled.validation = {1.0 / 3, 77, 0.5};
    StepRecord other = settled;
    other.step = 2;
    EXPECT_THROW(log.settle(other), Error);
    log.settle(settled);
    EXPECT_FALSE(log.opening().owed);
    EXPECT_THROW(log.settle(settled), Error);
    append_steps(log, 4, 5, 0);
  }
  const auto records = read_step_log(path);
  EXPECT_EQ(steps_of(path), range(1, 5));
  ASSERT_TRUE(records[2].validation);
  EXPECT_EQ(records[2].validation->loss, 1.0 / 3);
  EXPECT_FALSE(records[2].validation_owed);
  // Nothing is owed where the last record that stays owes nothing.
  EXPECT_FALSE(StepLog(path, 3).opening().owed);
  EXPECT_FALSE(StepLog(path, 2).opening().owed);
}

TEST(StepLog, O1_settling_on_a_full_disk_leaves_the_log_as_it_was) {
  const test::TempDir folder;
  const auto path = folder / "log.jsonl";
  StepRecord cut = record(1);
  cut.validation_owed = true;
  { ASSERT_TRUE(StepLog(path).append(cut)); }
  const std::string before = read_file(path);
  StepLog log(path, 1);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit full = {16, limit.rlim_max};
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &full);
  cut.validation = {1.0, 1, 0};
  EXPECT_THROW(log.settle(cut), Error);
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, handler);
  EXPECT_EQ(read_file(path), before);
  log.settle(cut);
  EXPECT_TRUE(read_step_log(path).at(0).validation);
}

TEST(StepLog, O1_the_reader_lets_the_later_line_win) {
  const test::TempDir dir;
  std::string text;
  for (const std::int64_t step : {1, 2, 3, 4}) {
    text += to_json(record(step, 1)) + "\n";
  }
  for (const std::int64_t step : {3, 4}) {
    text += to_json(record(step, 2)) + "\n";
  }
  write_file_atomic(dir / "log.jsonl", text);
  const auto records = read_step_log(dir / "log.jsonl");
  ASSERT_EQ(records.size(), 4U);
  EXPECT_EQ(records[2].grad_norm, 2);
  // Opening the log applies the same rule.
  const StepLog log(dir / "log.jsonl", 4);
  EXPECT_EQ(log.opening().kept, 4);
  EXPECT_EQ(log.opening().rewound, 2);
  EXPECT_EQ(read_step_log(dir / "log.jsonl")[2].grad_norm, 2);
}

TEST(StepLog, O1_a_line_cut_anywhere_is_repaired) {
  const std::string whole =
      to_json(record(1)) + "\n" + to_json(record(2)) + "\n";
  const std::size_t second = whole.find('\n') + 1;
  // Every seventh place, the last one (only the LF is missing) among them.
  for (std::size_t cut = whole.size() - 1; cut > second;
       cut -= std::min<std::size_t>(7, cut - second)) {
    const test::TempDir dir;
    const auto path = dir / "log.jsonl";
    write_file_atomic(path, whole.substr(0, cut));
    const bool complete = cut + 1 == whole.size();
    EXPECT_EQ(steps_of(path), range(1, complete ? 2 : 1)) << cut;
    StepLog log(path, 2);
    EXPECT_EQ(log.opening().kept, complete ? 2 : 1) << cut;
    EXPECT_EQ(log.opening().damaged, complete ? 0 : 1) << cut;
    append_steps(log, 3, 3, 2);
    const auto steps = steps_of(path);
    EXPECT_EQ(steps.back(), 3) << cut;
    EXPECT_EQ(steps.size(), complete ? 3U : 2U) << cut;
  }
}

TEST(StepLog, a_damaged_line_is_named_and_a_resume_moves_it_aside) {
  const test::TempDir dir;
  const auto path = dir / "log.jsonl";
  const std::string zeros(40, '\0');
  write_file_atomic(path, to_json(record(1)) + "\n" + zeros + "\n" +
                              to_json(record(3)) + "\n");
  try {
    read_step_log(path);
    FAIL() << "a damaged line was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), HasSubstr(path.string() + ":2:"));
  }
  const StepLog log(path, 3);
  EXPECT_EQ(log.opening().kept, 2);
  EXPECT_EQ(log.opening().damaged, 1);
  EXPECT_EQ(steps_of(path), (std::vector<std::int64_t>{1, 3}));
  EXPECT_THAT(read_file(rewound_path(path)), HasSubstr(zeros));
}

TEST(StepLog, O1_kill_and_resume_at_random_moments) {
  const test::TempDir dir;
  const auto path = dir / "log.jsonl";
  std::mt19937 random(5);
  std::int64_t resume = StepLog::kFromStart;
  for (int round = 0; round < 30; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      StepLog log(path, resume);
      for (std::int64_t step = resume + 1;; ++step) {
        log.append(record(step, round));
      }
    }
    ::usleep(1000 + random() % 4000);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    if (!std::filesystem::exists(path)) {
      continue;
    }
    const auto steps = steps_of(path);
    if (!steps.empty()) {
      ASSERT_EQ(steps, range(0, steps.back())) << "round " << round;
      // Resume from some earlier step, as from a checkpoint.
      resume = static_cast<std::int64_t>(
          random() % static_cast<std::uint64_t>(steps.back() + 1));
    }
  }
  EXPECT_FALSE(steps_of(path).empty());
}

// RLIMIT_FSIZE stands in for a full disk; it lives in a child so that the
// test's own files are not cut.
TEST(StepLog, a_full_disk_loses_no_record_and_leaves_no_part_of_one) {
  const test::TempDir dir;
  const auto path = dir / "log.jsonl";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    StepLog log(path);
    log.append(record(1));
    const std::uint64_t one = size_of_file(path);
    const rlimit tight{one + one / 2, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &tight);
    bool good = !log.append(record(2)) && !log.problem().empty();
    good = good && !log.append(record(3)) && !log.sync();
    good = good && size_of_file(path) == one;
    const rlimit wide{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &wide);
    good = good && log.append(record(4)) && log.problem().empty();
    good = good && log.sync();
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(steps_of(path), range(1, 4));
}

}  // namespace
}  // namespace osdn::report
