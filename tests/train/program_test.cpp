// The program osdn-train itself: options, signals, kills.

#include "support/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <thread>

#include "osdn/config/reader.h"
#include "osdn/core/random.h"
#include "support/json.h"
#include "train/tiny_run.h"

namespace osdn::train {
namespace {

namespace fs = std::filesystem;
using test::fingerprints;
using test::Program;
using test::TinyRun;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), OSDN_BIN_DIR "/osdn-train");
  return arguments;
}

std::vector<std::string> train_command(const TinyRun& tiny,
                                       const std::string& name,
                                       std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"--config", tiny.config_file(name).string()});
  return command(more);
}

std::int64_t logged_steps(const TinyRun& tiny, const std::string& name) {
  std::ifstream in(tiny.run_dir(name) / "log.jsonl");
  std::int64_t lines = 0;
  for (std::string line; std::getline(in, line);) ++lines;
  return lines;
}

// False when the program ended before.
bool wait_for(Program& program, const std::function<bool()>& condition) {
  while (!condition()) {
    if (!program.running()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

TEST(OsdnTrain, dry_run_counts_the_published_model_and_touches_nothing) {
  const test::TempDir folder;
  const fs::path config =
      fs::path(OSDN_SOURCE_DIR) / "configs" / "340m_osdn_apf.json";
  const fs::path run_dir = folder / "run";
  Program program(command({"--config", config.string(), "--run-dir",
                           run_dir.string(), "--dry-run"}));
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.out(), HasSubstr("374,583,488"));
  EXPECT_FALSE(fs::exists(run_dir));
}

TEST(OsdnTrain, a_run_folder_of_the_command_line_is_enough) {
  TinyRun tiny;
  tiny.json.erase("run_dir");
  const fs::path config = tiny.folder() / "no_folder.json";
  test::write_json(config, tiny.json);
  Program without(command({"--config", config.string()}));
  EXPECT_EQ(without.wait(), 2);
  EXPECT_THAT(without.err(), HasSubstr("run_dir"));
  Program with(command({"--config", config.string(), "--run-dir",
                        tiny.run_dir("given").string()}));
  EXPECT_EQ(with.wait(), 0) << with.err();
  EXPECT_EQ(tiny.log("given").size(), 12U);
}

TEST(OsdnTrain, print_config_prints_what_a_run_would_use) {
  const TinyRun tiny;
  Program program(train_command(
      tiny, "run", {"--set", "optimizer.lr=0.5", "--print-config"}));
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_EQ(program.out(),
            config::to_json(tiny.config("run", {"optimizer.lr=0.5"})));
  EXPECT_FALSE(fs::exists(tiny.run_dir()));
}

TEST(OsdnTrain, G1_usage_errors_have_a_code_and_start_nothing) {
  const TinyRun tiny;
  const std::vector<std::vector<std::string>> wrong = {
      {"--set", "optimizer.learing_rate=1"},
      {"--stop-after", "soon"},
      {"--stop-after", ""},
      {"--run-dir", ""},
      {"--run-dir", " "},
      {"--resume", ""},
      {"--config", " "},
      {"--no-such-option"},
      {"--overwrite", "--resume", "auto"},
      {"--set", "training.device=cuda"}};
  for (const std::vector<std::string>& arguments : wrong) {
    Program program(train_command(tiny, "run", arguments));
    EXPECT_EQ(program.wait(), 2) << arguments.back() << program.err();
    EXPECT_FALSE(program.err().empty());
    EXPECT_FALSE(fs::exists(tiny.run_dir()));
  }
}

TEST(OsdnTrain, O3_into_a_file_it_prints_plain_lines) {
  const TinyRun tiny;
  Program program(train_command(tiny, "run", {"--set", "logging.every=3"}));
  EXPECT_EQ(program.wait(), 0) << program.err();
  for (const char* line :
       {"step  3/12", "step 12/12", "validation at step 4: loss"}) {
    EXPECT_THAT(program.out(), HasSubstr(line));
  }
  EXPECT_THAT(program.out(), Not(HasSubstr("step  4/12")));
  EXPECT_THAT(program.out(), testing::ContainsRegex(
                                 "step  3/12 .* tok/s  [0-9]+:[0-9]+ left\n"));
  EXPECT_THAT(program.out() + program.err(),
              AllOf(Not(HasSubstr("\r")), Not(HasSubstr("\x1b"))));
}

// Steps that would take for ever.
struct EndlessRun : TinyRun {
  EndlessRun() {
    json["training"]["steps"] = 1'000'000;
    json["training"]["validate_every"] = 50;
    json["checkpoint"]["every"] = 0;
  }
};

TEST(OsdnTrain, P5_SIGTERM_finishes_the_step_saves_and_exits_0) {
  std::signal(SIGHUP, SIG_DFL);  // the tests may run under nohup
  const std::vector<std::pair<int, std::string>> signals = {
      {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"}, {SIGHUP, "SIGHUP"}};
  for (const auto& [number, name] : signals) {
    const EndlessRun tiny;
    Program program(train_command(tiny, "run"));
    ASSERT_TRUE(wait_for(program, [&] {
      return logged_steps(tiny, "run") >= 5;
    })) << program.err();
    program.signal(number);
    EXPECT_EQ(program.wait(), 0) << program.err();
    EXPECT_THAT(program.err(), HasSubstr("stopped by " + name + " after step"));
    ASSERT_EQ(tiny.saved_steps().size(), 1U);
    EXPECT_EQ(tiny.saved_steps().back(), tiny.log().back().step);
  }
}

TEST(OsdnTrain, a_reader_of_its_output_that_goes_away_does_not_stop_it) {
  const TinyRun tiny;
  std::vector<std::string> command = train_command(tiny, "run");
  command.insert(command.end(), {"--set", "logging.every=1"});
  Program program(command, test::Output::kUnread);
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(program.err(), HasSubstr("finished step 12 of 12"));
  EXPECT_EQ(tiny.saved_steps().back(), 12);
}

// The mask of signals that are held back, from /proc; 0 once it has ended.
std::uint64_t held_signals(const Program& program) {
  std::ifstream in("/proc/" + std::to_string(program.process()) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("SigBlk:")) {
      return std::stoull(line.substr(7), nullptr, 16);
    }
  }
  return 0;
}

TEST(OsdnTrain, P5_a_signal_before_the_first_step_is_heeded) {
  for (const int number : {SIGTERM, SIGUSR1}) {
    EndlessRun tiny;
    tiny.json["training"]["steps"] = 3;
    std::vector<std::string> arguments = {
        "/usr/bin/env", "-u", "GOMP_SPINCOUNT", "-u", "OMP_WAIT_POLICY"};
    for (const std::string& argument : train_command(tiny, "run")) {
      arguments.push_back(argument);
    }
    // It starts itself again and loads LibTorch anew: a long time to be hit in.
    Program program(arguments);
    ASSERT_TRUE(wait_for(program, [&] { return held_signals(program) != 0; }));
    program.signal(number);
    EXPECT_EQ(program.wait(), 0) << program.err();
    EXPECT_THAT(
        program.err(),
        HasSubstr(number == SIGTERM ? "stopped by SIGTERM before the first step"
                                    : "finished step 3 of 3"));
  }
}

// Of a running osdn-train that is started with these variables beside ours.
std::string environment_with(const std::vector<std::string>& variables) {
  const EndlessRun tiny;
  std::vector<std::string> arguments = {"/usr/bin/env", "-u", "GOMP_SPINCOUNT",
                                        "-u", "OMP_WAIT_POLICY"};
  arguments.insert(arguments.end(), variables.begin(), variables.end());
  for (const std::string& argument : train_command(tiny, "run")) {
    arguments.push_back(argument);
  }
  Program program(arguments);
  EXPECT_TRUE(wait_for(program, [&] { return logged_steps(tiny, "run") >= 1; }))
      << program.err();
  std::ifstream in("/proc/" + std::to_string(program.process()) + "/environ");
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(OsdnTrain, waiting_threads_spin_shortly_unless_the_user_says_otherwise) {
  EXPECT_THAT(environment_with({}), HasSubstr("GOMP_SPINCOUNT=1000"));
  EXPECT_THAT(environment_with({"OMP_WAIT_POLICY=passive"}),
              Not(HasSubstr("GOMP_SPINCOUNT")));
  EXPECT_THAT(environment_with({"GOMP_SPINCOUNT=77"}),
              HasSubstr("GOMP_SPINCOUNT=77"));
}

TEST(OsdnTrain, P5_SIGUSR1_saves_and_goes_on) {
  const EndlessRun tiny;
  Program program(train_command(tiny, "run"));
  ASSERT_TRUE(wait_for(program, [&] { return logged_steps(tiny, "run") >= 2; }))
      << program.err();
  program.signal(SIGUSR1);
  ASSERT_TRUE(wait_for(program, [&] { return !tiny.saved_steps().empty(); }))
      << program.err();
  const std::int64_t saved = tiny.saved_steps().back();
  EXPECT_TRUE(
      wait_for(program, [&] { return logged_steps(tiny, "run") > saved + 2; }));
}

TEST(OsdnTrain, stop_after_a_time_saves_and_exits_0) {
  const EndlessRun tiny;
  Program program(train_command(tiny, "run", {"--stop-after", "0.5s"}));
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.err(), HasSubstr("stopped by --stop-after"));
  Program again(train_command(tiny, "run"));
  EXPECT_EQ(again.wait(), tiny.saved_steps().empty() ? 0 : 2);  // C4
}

TEST(OsdnTrain, two_processes_never_share_a_folder) {
  const EndlessRun tiny;
  Program first(train_command(tiny, "run"));
  ASSERT_TRUE(wait_for(first, [&] { return logged_steps(tiny, "run") >= 1; }));
  Program second(train_command(tiny, "run", {"--resume", "auto"}));
  EXPECT_EQ(second.wait(), 2);
  EXPECT_THAT(second.err(), HasSubstr("is in use by"));
  EXPECT_TRUE(first.running());
}

TEST(OsdnTrain,
     C1_R1_killed_at_random_moments_and_resumed_it_is_the_uncut_run) {
  constexpr int kSteps = 60;
  TinyRun tiny;
  tiny.json["training"]["steps"] = kSteps;
  tiny.json["training"]["validate_every"] = 10;
  tiny.json["schedule"]["total_steps"] = kSteps;
  tiny.json["checkpoint"] = {{"every", 2}, {"keep_last", 2}};
  Program whole(train_command(tiny, "whole"));
  ASSERT_EQ(whole.wait(), 0) << whole.err();

  Xoshiro256 random(20261129);
  const std::vector<std::string> resume =
      train_command(tiny, "cut", {"--resume", "auto"});
  int kills = 0;
  std::int64_t target = 0;
  for (int i = 0; i < 6; ++i) {
    // Past a random number of new steps, then anywhere in a step or a save.
    target = logged_steps(tiny, "cut") + 1 +
             static_cast<std::int64_t>(random.below(8));
    Program program(resume);
    const bool reached =
        wait_for(program, [&] { return logged_steps(tiny, "cut") >= target; });
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(15000)));
    if (reached) program.signal(SIGKILL);
    if (program.wait() == -SIGKILL && reached) ++kills;
  }
  EXPECT_GE(kills, 2) << "the run was over too soon";
  Program last(resume);
  ASSERT_EQ(last.wait(), 0) << last.err();
  EXPECT_EQ(fingerprints(tiny.log("cut")), fingerprints(tiny.log("whole")));
}

}  // namespace
}  // namespace osdn::train
