// Answers from the log, from several ranks, and from a run that was cut.

#include "osdn/eval/collect_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <thread>

#include "eval/meeting.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/log.h"
#include "support/message_of.h"
#include "support/temp_dir.h"

namespace osdn::eval {
namespace {

using testing::HasSubstr;

RequestBatch batch_of(std::size_t rows) {
  RequestBatch batch;
  for (std::size_t i = 0; i < rows; ++i) {
    batch.requests.push_back({"c", "d", concat("rows.jsonl:", i + 1)});
  }
  return batch;
}

Answer answer_to(std::size_t row) {
  Answer answer;
  answer.log_likelihood = -1.0 / (3 + static_cast<double>(row));
  answer.greedy = row % 2 == 0;
  answer.tokens = static_cast<std::int64_t>(row);
  answer.output = concat("line\n\u00E9 ", row);
  return answer;
}

/// Packs of three rows, in reverse.
class ScriptedRun : public BatchRun {
 public:
  explicit ScriptedRun(std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      if (row % 3 == 0) packs_.emplace_back();
      packs_.back().insert(packs_.back().begin(), row);
    }
  }
  const std::vector<Pack>& packs() const override { return packs_; }
  void answer(std::size_t pack, const AnswerDone& done,
              const WorkDone& work) override {
    if (pack == fails_at) throw Error("the GPU is gone");
    ran.push_back(pack);
    for (const std::size_t row : packs_[pack]) {
      Answer answer = answer_to(row);
      if (row == not_finite) answer.log_likelihood = std::nan("");
      done(row, answer);
    }
    work(3);
  }

  std::size_t fails_at = 1000, not_finite = 1000;
  std::vector<std::size_t> ran;

 private:
  std::vector<Pack> packs_;
};

class CollectAnswers : public testing::Test {
 protected:
  static constexpr std::size_t kRows = 11;

  /// Hands out a run that the test has made.
  static std::function<std::unique_ptr<BatchRun>()> once(
      std::unique_ptr<ScriptedRun>& run) {
    return [&run] { return std::move(run); };
  }
  static void expect_all(const std::vector<Answer>& answers) {
    ASSERT_EQ(answers.size(), kRows);
    for (std::size_t i = 0; i < kRows; ++i) {
      EXPECT_EQ(answers[i], answer_to(i)) << i;
    }
  }
  std::filesystem::path file() const { return dir_ / "answers.jsonl"; }

  const RequestBatch batch_ = batch_of(kRows);
  osdn::test::TempDir dir_;
};

/// The packs that a call with this log has to run.
std::vector<std::size_t> packs_run(const std::filesystem::path& file,
                                   const RequestBatch& batch,
                                   const std::string& key,
                                   std::vector<Answer>& answers) {
  std::vector<std::size_t> ran;
  struct Reporting : ScriptedRun {
    using ScriptedRun::ScriptedRun;
    ~Reporting() override { *to = ran; }
    std::vector<std::size_t>* to = nullptr;
  };
  AnswerLog log(file, 0);
  answers = collect_answers(
      {"t", key, &batch},
      [&] {
        auto run = std::make_unique<Reporting>(batch.requests.size());
        run->to = &ran;
        return run;
      },
      log, {});
  return ran;
}

TEST_F(CollectAnswers, an_interrupted_call_goes_on_where_it_was) {
  {
    auto run = std::make_unique<ScriptedRun>(kRows);
    run->fails_at = 2;
    AnswerLog log(file(), 0);
    EXPECT_THROW(collect_answers({"t", "k", &batch_}, once(run), log, {}),
                 Error);
  }
  std::vector<Answer> answers;
  EXPECT_THAT(packs_run(file(), batch_, "k", answers),
              testing::ElementsAre(2, 3));
  expect_all(answers);
  // Nothing is left, and another configuration shares nothing with it.
  EXPECT_THAT(packs_run(file(), batch_, "k", answers), testing::IsEmpty());
  expect_all(answers);
  EXPECT_THAT(packs_run(file(), batch_, "other", answers),
              testing::ElementsAre(0, 1, 2, 3));
}

TEST_F(CollectAnswers, a_line_cut_by_a_kill_is_passed_over) {
  std::vector<Answer> answers;
  packs_run(file(), batch_, "k", answers);
  const std::string text = read_file(file());
  // Every place at which a write may end.
  for (const std::size_t left :
       {text.size() - 1, text.size() - 20, text.size() / 2, std::size_t{5}}) {
    write_file_atomic(file(), text.substr(0, left));
    std::string warnings;
    const log::Capture capture(
        [&](log::Level, std::string_view line) { warnings += line; });
    packs_run(file(), batch_, "k", answers);
    expect_all(answers);
    packs_run(file(), batch_, "k", answers);
    expect_all(answers);
    if (left < text.size() - 1) {
      EXPECT_THAT(warnings, HasSubstr("1 lines are no answers"));
    }
  }
}

TEST_F(CollectAnswers, a_log_is_spent_when_it_holds_nothing_else) {
  std::vector<Answer> answers;
  packs_run(file(), batch_, "old", answers);
  AnswerLog log(file(), 0);
  log.answers("new");
  EXPECT_FALSE(log.spent());
  log.answers("old");
  EXPECT_TRUE(log.spent());
}

TEST_F(CollectAnswers, the_file_is_made_with_the_first_answer) {
  AnswerLog log(file(), 0);
  log.answers("k");
  EXPECT_FALSE(std::filesystem::exists(file()));
  log.append("k", {{0, answer_to(0)}});
  EXPECT_EQ(AnswerLog(file(), 0).answers("k").at(0), answer_to(0));
}

// A rank may be killed before its first answer, and others go on.
TEST_F(CollectAnswers, answers_of_any_ranks_are_found) {
  for (const int rank : {3, 11}) {
    AnswerLog(file(), rank)
        .append("k", {{static_cast<std::size_t>(rank), answer_to(0)}});
  }
  write_file_atomic(dir_ / "answers.jsonl.rank3x", "no log\n");
  write_file_atomic(dir_ / "answers.jsonl.rank", "no log\n");
  EXPECT_EQ(answer_files(file()).size(), 2U);
  AnswerLog log(file(), 1);
  EXPECT_EQ(log.answers("k").size(), 2U);
  log.append("k", {{1, answer_to(1)}});
  EXPECT_EQ(answer_files(file()).size(), 3U);
}

TEST_F(CollectAnswers, a_file_of_something_else_is_left_alone) {
  for (const std::string text : {"a novel\n", "{\"text\": 1}\n{}\n", "a\nb"}) {
    write_file_atomic(file(), text);
    EXPECT_THAT(
        test::message_of([&] { AnswerLog(file(), 0); }, ExitCode::kUsage),
        HasSubstr("answers.jsonl: is no log of answers"));
    EXPECT_EQ(read_file(file()), text);
  }
}

TEST_F(CollectAnswers, an_answer_that_is_not_finite_is_named) {
  auto run = std::make_unique<ScriptedRun>(kRows);
  run->not_finite = 7;
  AnswerLog log({}, 0);
  EXPECT_THAT(test::message_of(
                  [&] {
                    collect_answers({"t", "k", &batch_}, once(run), log, {});
                  },
                  ExitCode::kNonFinite),
              HasSubstr("rows.jsonl:8: the model's log-likelihood is"));
}

TEST_F(CollectAnswers, any_number_of_ranks_gives_every_rank_the_same_answers) {
  for (const int count : {2, 3, 7}) {
    test::Meeting meeting(count);
    std::vector<std::vector<Answer>> answers(static_cast<std::size_t>(count));
    std::vector<std::vector<std::size_t>> ran(answers.size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < count; ++rank) {
      threads.emplace_back([&, rank] {
        AnswerLog log(dir_ / std::to_string(count), rank);
        const auto gather = [&meeting, rank](const std::string& mine) {
          return meeting.gather(rank, mine);
        };
        answers[static_cast<std::size_t>(rank)] =
            collect_answers({"t", "k", &batch_},
                            [] { return std::make_unique<ScriptedRun>(kRows); },
                            log, {rank, count, gather});
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& of_rank : answers) expect_all(of_rank);
    // Another number of ranks finds what these have left.
    std::vector<Answer> alone;
    EXPECT_THAT(packs_run(dir_ / std::to_string(count), batch_, "k", alone),
                testing::IsEmpty());
    expect_all(alone);
  }
}

TEST_F(CollectAnswers, the_first_rank_alone_shows_progress) {
  for (const int rank : {0, 1}) {
    AnswerLog log({}, rank);
    testing::internal::CaptureStderr();
    collect_answers({"t", "k", &batch_},
                    [] { return std::make_unique<ScriptedRun>(kRows); }, log,
                    {rank, 2, [](const std::string& mine) {
                       return std::vector<std::string>{mine, mine};
                     }});
    EXPECT_EQ(testing::internal::GetCapturedStderr().empty(), rank == 1);
  }
}

TEST_F(CollectAnswers, what_stops_one_rank_stops_all) {
  test::Meeting meeting(2);
  std::vector<std::string> messages(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      auto run = std::make_unique<ScriptedRun>(kRows);
      run->fails_at = 3;  // of rank 1
      AnswerLog log({}, rank);
      try {
        collect_answers({"t", "k", &batch_}, once(run), log,
                        {rank, 2, [&meeting, rank](const std::string& mine) {
                           return meeting.gather(rank, mine);
                         }});
      } catch (const Error& error) {
        messages[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& message : messages) {
    EXPECT_EQ(message, "the GPU is gone");
  }
}

TEST(AnswerLine, keeps_every_bit) {
  Answer answer = answer_to(4);
  answer.truncated = answer.empty_continuation = true;
  for (const double value : {-0.1, -1e-300, -12345.678901234567, 0.0,
                             std::numeric_limits<double>::lowest()}) {
    answer.log_likelihood = value;
    const auto read = parse_answer_line(answer_line("key", 9, answer));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->key, "key");
    EXPECT_EQ(read->row, 9U);
    EXPECT_EQ(read->answer, answer);
  }
  for (const char* line : {"", "{", "[]", "{}", "{\"key\": 3}"}) {
    EXPECT_FALSE(parse_answer_line(line)) << line;
  }
}

}  // namespace
}  // namespace osdn::eval
