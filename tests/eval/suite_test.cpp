// Calls of the suite as a whole: tasks, groups, the dummy, what is counted,
// what goes wrong.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "eval/meeting.h"
#include "osdn/core/concat.h"
#include "osdn/core/hash.h"
#include "osdn/core/log.h"
#include "osdn/eval/evaluation.h"
#include "support/message_of.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace osdn::eval {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class Suite : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<osdn::test::TempDir>();
    test::write_tokenizer(*dir_ / "t.model");
    test::save_checkpoint(*dir_ / "osdn", 1, test::osdn_apf_model());
    std::string piqa, lambada;
    for (int i = 0; i < 20; ++i) {
      const std::string text =
          test::tiny_text(static_cast<std::uint64_t>(i), 3);
      piqa += json{{"goal", text.substr(0, static_cast<std::size_t>(5 + i))},
                   {"sol1", text.substr(8, 6)},
                   {"sol2", text.substr(20, 9)},
                   {"label", i % 2}}
                  .dump() +
              "\n";
      lambada += json{{"text", text.substr(0, 30) + " abc"}}.dump() + "\n";
    }
    test::put_file(*dir_ / "data/eval/piqa.jsonl", piqa);
    test::put_file(*dir_ / "data/lambada_openai.jsonl", lambada);
    test::put_file(
        *dir_ / "data/boolq.jsonl",
        json{{"passage", "ab cd"}, {"question", "ab"}, {"label", 1}}.dump());
  }
  static void TearDownTestSuite() { dir_.reset(); }

  static EvalOptions options(std::vector<std::string> tasks,
                             const std::string& model = "osdn") {
    EvalOptions options;
    options.tasks = std::move(tasks);
    options.model = model == "dummy" ? "dummy" : *dir_ / model;
    options.tokenizer = *dir_ / "t.model";
    options.data.inputs = {*dir_ / "data"};
    options.dtype = "fp32";
    return options;
  }
  static const Result& find(const Evaluation& evaluation,
                            const std::string& task,
                            const std::string& metric) {
    for (const Result& result : evaluation.results) {
      if (result.task == task && result.metric == metric) return result;
    }
    throw std::runtime_error(concat("no ", task, " ", metric));
  }

  static std::unique_ptr<osdn::test::TempDir> dir_;
};
std::unique_ptr<osdn::test::TempDir> Suite::dir_;

TEST_F(Suite, results_follow_from_the_samples) {
  const Evaluation got = evaluate(options({"piqa", "lambada"}));
  ASSERT_TRUE(got.failures.empty());
  std::vector<json> lines;
  std::istringstream samples(got.samples);
  for (std::string line; std::getline(samples, line);) {
    lines.push_back(json::parse(line));
  }
  ASSERT_EQ(lines.size(), 40U + 20U);
  double right = 0;
  for (std::size_t i = 0; i < 40; i += 2) {
    const bool second = lines[i + 1].at("log_likelihood").get<double>() >
                        lines[i].at("log_likelihood").get<double>();
    const double score = second == (i / 2 % 2 == 1) ? 1 : 0;
    EXPECT_EQ(lines[i].at("score"), score);
    right += score;
  }
  const Result& acc = find(got, "piqa", "acc");
  EXPECT_DOUBLE_EQ(acc.value, right / 20);
  EXPECT_EQ(acc.n, 20);
  EXPECT_EQ(acc.data, "piqa.jsonl");
  EXPECT_EQ(acc.data_hash, sha256_of_file(*dir_ / "data/eval/piqa.jsonl"));
  EXPECT_FALSE(acc.seed);
  EXPECT_EQ(acc.max_len, 24);
  EXPECT_EQ(acc.requests_hash, find(got, "piqa", "acc_norm").requests_hash);

  double sum = 0;
  for (std::size_t i = 40; i < 60; ++i) {
    EXPECT_EQ(lines[i].at("task"), "lambada_openai");
    EXPECT_EQ(lines[i].at("label"), "abc");
    EXPECT_GT(lines[i].at("tokens"), 0);
    EXPECT_THAT(lines[i].at("place").get<std::string>(),
                HasSubstr(concat("lambada_openai.jsonl:", i - 39)));
    sum += lines[i].at("log_likelihood").get<double>();
  }
  // Of the last word, not of a token (eval.md 10, 10).
  EXPECT_NEAR(find(got, "lambada_openai", "perplexity").value,
              std::exp(-sum / 20), 1e-9 * std::exp(-sum / 20));
}

TEST_F(Suite, rows_that_are_cut_are_counted_and_the_first_is_named) {
  EvalOptions request = options({"piqa"});
  request.max_len = "12";
  std::string warnings;
  const log::Capture capture(
      [&](log::Level, std::string_view text) { warnings += text; });
  const Result cut = find(evaluate(request), "piqa", "acc");
  EXPECT_GT(cut.truncated, 0);
  EXPECT_EQ(cut.max_len, 12);
  EXPECT_THAT(warnings, AllOf(HasSubstr("of 40 rows are longer"),
                              HasSubstr("piqa.jsonl:")));
  request.max_len = "none";
  EXPECT_EQ(find(evaluate(request), "piqa", "acc").truncated, 0);
}

TEST_F(Suite, the_begin_token_is_the_users_choice) {
  EvalOptions request = options({"lambada"});
  const Result without =
      find(evaluate(request), "lambada_openai", "perplexity");
  EXPECT_FALSE(without.bos);
  request.bos = "1";
  const Result with = find(evaluate(request), "lambada_openai", "perplexity");
  EXPECT_TRUE(with.bos);
  EXPECT_NE(with.value, without.value);
  EXPECT_NE(config_hash(with), config_hash(without));
}

TEST_F(Suite, a_group_runs_what_it_can_and_averages_it) {
  const Evaluation got = evaluate(options({"commonsense"}));
  EXPECT_EQ(got.failures.size(), 7U);
  for (const TaskFailure& failure : got.failures) {
    EXPECT_EQ(failure.code, ExitCode::kBadInput);
    EXPECT_THAT(failure.message, AllOf(HasSubstr("looked for eval/"),
                                       HasSubstr("load_dataset")));
  }
  const Result& average = find(got, "commonsense", "average");
  EXPECT_DOUBLE_EQ(
      average.value,
      (find(got, "piqa", "acc").value + find(got, "boolq", "acc").value) / 2);
  EXPECT_EQ(average.n, 2);
  EXPECT_EQ(json::parse(average.detail).at("metrics"),
            (json{{"piqa", "acc"}, {"boolq", "acc"}}));
  // One question alone has no deviation.
  EXPECT_FALSE(average.stderr_);
}

TEST_F(Suite, the_dummy_needs_no_checkpoint) {
  EvalOptions request = options({"piqa"}, "dummy");
  request.tokenizer.reset();
  Evaluation got = evaluate(request);
  EXPECT_EQ(got.device, "none");
  EXPECT_EQ(find(got, "piqa", "acc").model, "dummy");
  EXPECT_EQ(find(got, "piqa", "acc").dtype, "");
  request.tasks = {"q_geo"};
  request.data.inputs = {*dir_ / "data/lambada_openai.jsonl"};
  got = evaluate(request);
  ASSERT_EQ(got.failures.size(), 1U);
  EXPECT_EQ(got.failures[0].task, "q_geo");
  EXPECT_THAT(got.failures[0].message, HasSubstr("inside of a model"));
}

TEST_F(Suite, request_hashes_need_no_weights) {
  EvalOptions request = options({"piqa", "boolq", "sciq"}, "dummy");
  request.tokenizer.reset();
  const RequestHashes hashes = request_hashes(request);
  ASSERT_EQ(hashes.failures.size(), 1U);
  EXPECT_EQ(hashes.failures[0].task, "sciq");
  EXPECT_THAT(hashes.table,
              HasSubstr("boolq  -                2  " +
                        sha256("ab cd\nQuestion: ab?\nAnswer:\x1F no\x1E"
                               "ab cd\nQuestion: ab?\nAnswer:\x1F yes\x1E")));
}

TEST_F(Suite, an_interrupted_call_gives_the_same_bits) {
  EvalOptions request = options({"piqa", "lambada"});
  request.batch_tokens = 100;
  const Evaluation whole = evaluate(request);
  request.answers = *dir_ / "answers.jsonl";
  const Evaluation logged = evaluate(request);
  EXPECT_TRUE(logged.answers_spent);
  std::ifstream in(*request.answers);
  std::string text(std::istreambuf_iterator<char>(in), {});
  in.close();
  test::put_file(*request.answers, text.substr(0, text.size() * 2 / 5));
  const log::Capture quiet([](log::Level, std::string_view) {});
  const Evaluation resumed = evaluate(request);
  EXPECT_EQ(resumed.samples, whole.samples);
  for (std::size_t i = 0; i < whole.results.size(); ++i) {
    EXPECT_EQ(resumed.results[i].value, whole.results[i].value);
    EXPECT_EQ(resumed.results[i].stderr_, whole.results[i].stderr_);
  }
}

TEST_F(Suite, a_limit_marks_what_it_cuts_and_nothing_else) {
  test::put_file(*dir_ / "texts/a.txt", "ab cd\nef gh\nab\n");
  test::put_file(*dir_ / "wiki/wikitext2_test.raw",
                 " = A = \n ab . \n = B = \n cd . \n = C = \n ef . \n");
  struct Case {
    const char* task;
    const char* data;
    std::int64_t documents;
  };
  for (const Case& one :
       {Case{"piqa", "data", 20}, Case{"lambada", "data", 20},
        Case{"ppl", "texts", 3}, Case{"wikitext", "wiki", 3}}) {
    SCOPED_TRACE(one.task);
    EvalOptions request = options({one.task}, "dummy");
    request.data.inputs = {*dir_ / one.data};
    request.data.split = "lines";
    const Result whole = evaluate(request).results.at(0);
    EXPECT_EQ(whole.n, one.documents);
    for (const std::int64_t less : {1, 0, -1, -1000}) {
      request.data.limit = one.documents - less;
      const Result r = evaluate(request).results.at(0);
      EXPECT_EQ(r.n, std::min(one.documents, *request.data.limit));
      EXPECT_EQ(r.limit.has_value(), less > 0);
      EXPECT_EQ(config_hash(r) == config_hash(whole), less <= 0);
    }
  }
}

TEST_F(Suite, solved_examples_are_part_of_what_a_result_is_named_by) {
  const auto of = [](std::int64_t shots, const std::string& rows) {
    test::put_file(*dir_ / "shots.jsonl", rows);
    EvalOptions request = options({"piqa"}, "dummy");
    request.shots = shots;
    request.shots_file = *dir_ / "shots.jsonl";
    return find(evaluate(request), "piqa", "acc");
  };
  const std::string row =
      R"({"goal": "g", "sol1": "a", "sol2": "b", "label": 1})"
      "\n";
  const Result one = of(1, row + row);
  EXPECT_EQ(one.settings, R"({"shots":1})");
  EXPECT_NE(config_hash(one), config_hash(of(2, row + row)));
  // The rest of the file counts too.
  EXPECT_NE(one.data_hash, of(1, row).data_hash);
  EXPECT_EQ(one.data_hash,
            sha256(sha256_of_file(*dir_ / "data/eval/piqa.jsonl") +
                   sha256(row + row)));
}

TEST_F(Suite, folders_without_a_text_are_there_for_other_tasks) {
  test::put_file(*dir_ / "text.txt", "ab cd");
  EvalOptions request = options({"ppl", "piqa"}, "dummy");
  test::put_file(*dir_ / "sets/eval/piqa.jsonl",
                 R"({"goal": "g", "sol1": "a", "sol2": "b", "label": 1})");
  request.data.inputs = {*dir_ / "sets", *dir_ / "text.txt"};
  const Evaluation both = evaluate(request);
  EXPECT_TRUE(both.failures.empty());
  EXPECT_EQ(find(both, "ppl", "word_perplexity").data, "text.txt");
  EXPECT_EQ(find(both, "piqa", "acc").n, 1);
  request.data.inputs = {*dir_ / "sets"};
  EXPECT_THAT(evaluate(request).failures.at(0).message,
              HasSubstr("no .txt, .jsonl"));
}

TEST_F(Suite, a_folder_holds_sets_and_texts_side_by_side) {
  test::put_file(*dir_ / "flat/text.txt", "ab cd");
  test::put_file(*dir_ / "flat/piqa.jsonl",
                 R"({"goal": "g", "sol1": "a", "sol2": "b", "label": 1})");
  EvalOptions request = options({"piqa", "ppl"}, "dummy");
  request.data.inputs = {*dir_ / "flat"};
  const log::Capture quiet([](log::Level, std::string_view) {});
  const Evaluation both = evaluate(request);
  EXPECT_TRUE(both.failures.empty());
  EXPECT_EQ(find(both, "ppl", "word_perplexity").data, "text.txt");
  EXPECT_EQ(find(both, "piqa", "acc").n, 1);
}

// A task reads one file: which of several is meant, the user has to say.
TEST_F(Suite, files_of_one_name_are_refused_where_they_differ) {
  const std::string row =
      R"({"goal": "g", "sol1": "a", "sol2": "b", "label": 1})";
  test::put_file(*dir_ / "first/piqa.jsonl", row);
  test::put_file(*dir_ / "same/eval/piqa.jsonl", row);
  test::put_file(*dir_ / "other/piqa.jsonl", row + "\n" + row);
  test::put_file(*dir_ / "both/piqa.jsonl", row);
  test::put_file(*dir_ / "both/eval/piqa.jsonl", row + "\n" + row);
  const auto of = [](std::vector<const char*> inputs) {
    EvalOptions request = options({"piqa"}, "dummy");
    request.data.inputs.clear();
    for (const char* input : inputs) {
      request.data.inputs.push_back(*dir_ / input);
    }
    return evaluate(request);
  };
  EXPECT_EQ(find(of({"first", "same"}), "piqa", "acc").n, 1);
  EXPECT_EQ(find(of({"first", "first/piqa.jsonl"}), "piqa", "acc").n, 1);
  for (const std::vector<const char*>& inputs :
       {std::vector<const char*>{"first", "other"},
        std::vector<const char*>{"first", "same", "other/piqa.jsonl"},
        std::vector<const char*>{"both"}}) {
    const Evaluation got = of(inputs);
    ASSERT_EQ(got.failures.size(), 1U);
    EXPECT_EQ(got.failures[0].code, ExitCode::kUsage);
    EXPECT_THAT(got.failures[0].message,
                AllOf(HasSubstr("several files piqa.jsonl, which differ: "),
                      HasSubstr((*dir_ / inputs.front()).string())));
  }
}

TEST_F(Suite, what_one_rank_cannot_read_stops_the_task_on_all) {
  std::filesystem::create_directories(*dir_ / "half/eval");
  std::filesystem::copy(*dir_ / "data/lambada_openai.jsonl",
                        *dir_ / "half/lambada_openai.jsonl");
  test::put_file(
      *dir_ / "half/boolq.jsonl",
      json{{"passage", "x"}, {"question", "ab"}, {"label", 1}}.dump());
  test::Meeting meeting(2);
  std::vector<Evaluation> got(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      EvalOptions request = options({"piqa", "boolq", "lambada"}, "dummy");
      request.data.inputs = {*dir_ / (rank == 0 ? "data" : "half")};
      got[static_cast<std::size_t>(rank)] = evaluate(
          request, {rank, 2, [&meeting, rank](const std::string& mine) {
                      return meeting.gather(rank, mine);
                    }});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Evaluation& of_rank : got) {
    ASSERT_EQ(of_rank.failures.size(), 2U);
    EXPECT_EQ(of_rank.failures[0].task, "piqa");
    EXPECT_THAT(of_rank.failures[0].message, HasSubstr("half; none is there"));
    EXPECT_EQ(of_rank.failures[1].task, "boolq");
    EXPECT_THAT(of_rank.failures[1].message,
                HasSubstr("the ranks read different data"));
    EXPECT_EQ(find(of_rank, "lambada_openai", "acc").n, 20);
  }
}

TEST_F(Suite, a_text_without_a_last_word_is_named) {
  for (const char* text : {"word", "a word ", " "}) {
    test::put_file(
        *dir_ / "lambada/lambada_openai.jsonl",
        json{{"text", "a word"}}.dump() + "\n" + json{{"text", text}}.dump());
    EvalOptions request = options({"lambada"}, "dummy");
    request.data.inputs = {*dir_ / "lambada"};
    EXPECT_THAT(evaluate(request).failures.at(0).message,
                HasSubstr("lambada_openai.jsonl:2: \"text\""));
  }
}

TEST_F(Suite, options_that_do_not_go_together) {
  const auto refused = [](const auto& change) {
    EvalOptions request = options({"piqa"});
    change(request);
    return test::message_of([&] { evaluate(request); }, ExitCode::kUsage);
  };
  EXPECT_THAT(refused([](EvalOptions& o) { o.shots = 2; }),
              HasSubstr("--shots-file"));
  EXPECT_THAT(refused([](EvalOptions& o) { o.shots = -1; }),
              HasSubstr("--shots is -1"));
  EXPECT_THAT(refused([](EvalOptions& o) {
                o.tasks = {"siqa", "social_iqa"};
              }),
              HasSubstr("'social_iqa' is asked for twice"));
  EXPECT_THAT(refused([](EvalOptions& o) {
                o.parity = "fla";
                o.bos = "0";
              }),
              HasSubstr("--parity fla"));
  EXPECT_THAT(refused([](EvalOptions& o) { o.trunc_side = "middle"; }),
              HasSubstr("expected one of right, left"));
  EXPECT_THAT(refused([](EvalOptions& o) { o.tasks = {"commonsens"}; }),
              HasSubstr("did you mean 'commonsense'?"));
  EvalOptions request = options({"ppl"});
  request.shots = 1;
  request.shots_file = *dir_ / "data/eval/piqa.jsonl";
  request.data.inputs = {*dir_ / "data/boolq.jsonl"};
  request.data.field = "passage";
  EXPECT_THAT(evaluate(request).failures.at(0).message,
              HasSubstr("no solved examples"));
}

}  // namespace
}  // namespace osdn::eval
