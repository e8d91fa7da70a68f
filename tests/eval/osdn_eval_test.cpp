// The program: exit codes, messages, files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/hash.h"
#include "osdn/core/version.h"
#include "osdn/eval/task_table.h"
#include "support/json.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace osdn::eval {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kProgram = OSDN_BIN_DIR "/osdn-eval";

class OsdnEval : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<osdn::test::TempDir>();
    test::write_tokenizer(*dir_ / "t.model");
    test::write_tokenizer(*dir_ / "large.model", test::kVocab + 1);
    test::save_checkpoint(*dir_ / "osdn", 1, test::osdn_apf_model());
    test::save_checkpoint(*dir_ / "plain", 1, test::deltanet_model());
    test::put_file(*dir_ / "my text.txt", test::tiny_text(2, 4));
  }
  static void TearDownTestSuite() { dir_.reset(); }
  void SetUp() override {
    if (!fs::exists(kProgram)) {
      if (std::getenv("CI") != nullptr) {
        FAIL() << kProgram << " is missing";
      }
      GTEST_SKIP() << kProgram << " is not built";
    }
  }

  /// Runs in the folder of the files above; returns stdout and stderr.
  static std::string run(const std::string& arguments, ExitCode code) {
    const std::string command = concat("cd ", dir_->path().string(), " && ",
                                       kProgram, " ", arguments, " 2>&1");
    std::string output;
    FILE* pipe = ::popen(command.c_str(), "r");
    char buffer[4096];
    while (const std::size_t got =
               std::fread(buffer, 1, sizeof(buffer), pipe)) {
      output.append(buffer, got);
    }
    const int status = ::pclose(pipe);
    EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1,
              static_cast<int>(code))
        << arguments << "\n"
        << output;
    return output;
  }

  static constexpr const char* kUsual =
      "--tokenizer t.model --data 'my text.txt' --split lines ";
  static std::unique_ptr<osdn::test::TempDir> dir_;
};
std::unique_ptr<osdn::test::TempDir> OsdnEval::dir_;

TEST_F(OsdnEval, two_models_and_their_comparison) {
  const std::string table = run(
      concat("--task ppl,q_geo --model osdn --out a.json --samples s.jsonl ",
             kUsual),
      ExitCode::kOk);
  EXPECT_THAT(table, AllOf(HasSubstr("model osdn/checkpoints/step_000000001, "
                                     "tokenizer t.model, dtype fp32, max_len "
                                     "24\n"),
                           HasSubstr("\nppl    window    word_perplexity"),
                           HasSubstr("\nq_geo  window    q_geo_flip")));
  const json report = osdn::test::read_json(*dir_ / "a.json");
  EXPECT_EQ(report.at("format"), "osdn-eval/1");
  EXPECT_EQ(report.at("version"), commit());
  EXPECT_THAT(report.at("date").get<std::string>(),
              testing::MatchesRegex("20..-..-..T..:..:..Z"));
  EXPECT_THAT(report.at("device").get<std::string>(), HasSubstr("cpu, "));
  EXPECT_THAT(report.at("command").get<std::string>(),
              HasSubstr("osdn-eval --task ppl,q_geo --model osdn --out a.json "
                        "--samples s.jsonl --tokenizer t.model --data 'my "
                        "text.txt' --split lines"));
  EXPECT_EQ(report.at("results").size(), 4U + 11U);
  const std::string samples = read_file(*dir_ / "s.jsonl");
  EXPECT_EQ(std::count(samples.begin(), samples.end(), '\n'), 4);

  run(concat("--task ppl,q_geo --model plain --out b.json ", kUsual),
      ExitCode::kOk);
  EXPECT_THAT(run("--compare b.json a.json", ExitCode::kOk),
              AllOf(HasSubstr("A: plain"), HasSubstr("B: osdn"),
                    HasSubstr("token_perplexity"), HasSubstr("q_geo_flip")));

  run(concat("--task ppl --max-len 8 --model plain --out c.json ", kUsual),
      ExitCode::kOk);
  EXPECT_THAT(run("--compare a.json c.json", ExitCode::kBadInput),
              HasSubstr("max_len is 24 and 8"));
  run("--compare a.json c.json --force", ExitCode::kOk);
}

TEST_F(OsdnEval, a_task_without_data_does_not_stop_the_others) {
  const std::string some =
      run(concat("--task ppl,wikitext --model osdn --out e.json "
                 "--tokenizer t.model --data 'my text.txt' --data "
                 "'my text.txt' --split lines"),
          ExitCode::kBadInput);
  EXPECT_THAT(some, AllOf(HasSubstr("\nppl   window"),
                          HasSubstr("task wikitext: looked for"),
                          HasSubstr("wikitext2_test.raw")));
  EXPECT_EQ(osdn::test::read_json(*dir_ / "e.json").at("results").size(), 4U);
}

TEST_F(OsdnEval, answers_stay_where_another_call_can_use_them) {
  const fs::path answers = *dir_ / "f.json.answers.jsonl";
  // Nothing was answered: nothing stays.
  run("--task piqa --model osdn --out f.json --tokenizer t.model "
      "--data 'my text.txt'",
      ExitCode::kBadInput);
  EXPECT_FALSE(fs::exists(answers));
  // One task was: its answers need not be found again.
  const auto stays = HasSubstr("f.json.answers.jsonl stays: the same call");
  EXPECT_THAT(run(concat("--task ppl,piqa --model osdn --out f.json ", kUsual),
                  ExitCode::kBadInput),
              stays);
  EXPECT_TRUE(fs::exists(answers));
  // They are of no use to other options, and not lost for it.
  const std::string before = read_file(answers);
  EXPECT_THAT(
      run(concat("--task ppl --model osdn --max-len 8 --out f.json ", kUsual),
          ExitCode::kOk),
      HasSubstr("f.json.answers.jsonl stays: it holds answers of a call with "
                "other options"));
  EXPECT_THAT(read_file(answers), testing::StartsWith(before));
  fs::remove(answers);
  run(concat("--task ppl,piqa --model osdn --out f.json ", kUsual),
      ExitCode::kBadInput);
  EXPECT_THAT(run(concat("--task ppl --model osdn --out f.json ", kUsual),
                  ExitCode::kOk),
              Not(HasSubstr("stays")));
  EXPECT_FALSE(fs::exists(answers));
  run(concat("--task ppl --model osdn --out f.json --answers kept ", kUsual),
      ExitCode::kOk);
  EXPECT_TRUE(fs::exists(*dir_ / "kept"));
}

TEST_F(OsdnEval, tables_as_csv) {
  run(concat("--task q_geo --model osdn --csv tables ", kUsual), ExitCode::kOk);
  for (const char* name :
       {"overall", "layers", "heads", "relative", "absolute"}) {
    EXPECT_THAT(read_file(*dir_ / concat("tables/q_geo_window_", name, ".csv")),
                HasSubstr("\n"))
        << name;
  }
  const std::string heads = read_file(*dir_ / "tables/q_geo_window_heads.csv");
  EXPECT_THAT(heads, testing::StartsWith("head,layer,mean_beta,mean_d_k2,n,"));
  EXPECT_EQ(std::count(heads.begin(), heads.end(), '\n'), 1 + 2 * 2);
}

TEST_F(OsdnEval, request_hashes_need_no_model) {
  EXPECT_THAT(
      run("--task ppl --hash-requests --data 'my text.txt'", ExitCode::kOk),
      HasSubstr(
          sha256(concat("\x1F", read_file(*dir_ / "my text.txt"), "\x1E"))));
  EXPECT_THAT(run("--task piqa --hash-requests --data .", ExitCode::kBadInput),
              HasSubstr("looked for eval/piqa.jsonl"));
}

TEST_F(OsdnEval, a_limited_run_is_marked) {
  EXPECT_THAT(
      run(concat("--task ppl --model osdn --limit 2 ", kUsual), ExitCode::kOk),
      AllOf(HasSubstr("\nppl *  window"), HasSubstr("* --limit")));
}

TEST_F(OsdnEval, task_list_says_what_each_needs_and_where_to_get_it) {
  EXPECT_THAT(run("--task list", ExitCode::kOk),
              AllOf(HasSubstr("ppl: "), HasSubstr("\nwikitext: "),
                    HasSubstr("\nq_geo: "), HasSubstr("wikitext2_test.raw"),
                    HasSubstr("EleutherAI/wikitext_document_level")));
}

TEST_F(OsdnEval, wrong_command_lines) {
  EXPECT_THAT(run("--task ppl", ExitCode::kUsage), HasSubstr("--model"));
  EXPECT_THAT(run("--task qgeo --model osdn", ExitCode::kUsage),
              HasSubstr("did you mean 'q_geo'?"));
  EXPECT_THAT(run("--taks ppl", ExitCode::kUsage),
              HasSubstr("did you mean --task?"));
  EXPECT_THAT(run(concat("--task ppl --model osdn --max-len 0 ", kUsual),
                  ExitCode::kUsage),
              HasSubstr("--max-len is '0'"));
  for (const char* option : {"--out", "--samples"}) {
    EXPECT_THAT(run(concat("--task ppl --model osdn ", kUsual, option,
                           " nowhere/x.json"),
                    ExitCode::kUsage),
                AllOf(HasSubstr("nowhere/x.json: no file can be made there"),
                      Not(HasSubstr("word_perplexity"))));
  }
  run("--compare a.json", ExitCode::kUsage);
  for (const char* option : {"--model ''", "--data ' '", "--tokenizer ''",
                             "--out ' '", "--samples ''", "--compare a ''"}) {
    EXPECT_THAT(run(concat("--task ppl ", option), ExitCode::kUsage),
                HasSubstr("\" is blank; expected the path"));
  }
}

TEST_F(OsdnEval, every_output_is_tried_before_the_work) {
  test::put_file(*dir_ / "file", "x");
  fs::create_directories(*dir_ / "g.json.answers.jsonl");
  test::put_file(*dir_ / "novel.jsonl", "{\"text\": 1}\n");
  for (const char* outputs :
       {"--out nowhere/x.json", "--samples nowhere/x", "--answers nowhere/x",
        "--csv file", "--csv file/in/it", "--csv /proc/tables", "--out g.json",
        "--out .", "--answers novel.jsonl"}) {
    EXPECT_THAT(run(concat("--task ppl --model osdn ", kUsual, outputs),
                    ExitCode::kUsage),
                Not(HasSubstr("word_perplexity")))
        << outputs;
  }
  EXPECT_EQ(read_file(*dir_ / "file"), "x");
  run(concat("--task q_geo --model osdn --csv 'new/tables of a call/' ",
             kUsual),
      ExitCode::kOk);
  EXPECT_TRUE(
      fs::exists(*dir_ / "new/tables of a call/q_geo_window_heads.csv"));
}

TEST_F(OsdnEval, an_option_without_effect_is_refused) {
  for (const char* option :
       {"--repeat 4", "--haystack t.model", "--protocol jrt-once", "--seed 3",
        "--per-doc", "--mqar-vocab 9", "--trunc-side left", "--shots 0"}) {
    EXPECT_THAT(run(concat("--task ppl --model osdn ", kUsual, option),
                    ExitCode::kUsage),
                HasSubstr(option == std::string("--protocol jrt-once")
                              ? "none of the tasks has protocols"
                              : " has no effect on ppl"));
  }
  run("--task ppl --hash-requests --out x.json --data 'my text.txt'",
      ExitCode::kUsage);
  run(concat("--task ppl --model osdn --force ", kUsual), ExitCode::kUsage);
}

// Without a model that computes, and without a task at all.
TEST_F(OsdnEval, an_option_is_refused_where_nothing_computes) {
  const std::string dummy = concat("--task ppl --model dummy ", kUsual);
  for (const char* option : {"--device cpu", "--dtype fp32", "--threads 1",
                             "--batch-tokens 64", "--answers kept.jsonl"}) {
    EXPECT_THAT(run(concat(dummy, option), ExitCode::kUsage),
                AllOf(HasSubstr(" has no effect with --model dummy, which "),
                      Not(HasSubstr("word_perplexity"))))
        << option;
    EXPECT_THAT(run(concat("--task ppl --hash-requests ", kUsual, option),
                    ExitCode::kUsage),
                HasSubstr(" has no effect with --hash-requests, which "))
        << option;
  }
  EXPECT_FALSE(fs::exists(*dir_ / "kept.jsonl"));
  for (const char* option :
       {"--model osdn", "--device cpu", "--task ppl", "--limit 1",
        "--out c.json", "--csv tables", "--answers c", "--hash-requests"}) {
    EXPECT_THAT(
        run(concat("--compare a.json b.json ", option), ExitCode::kUsage),
        HasSubstr(" has no effect with --compare; leave it out"))
        << option;
  }
  EXPECT_THAT(run("--task list --model osdn", ExitCode::kUsage),
              HasSubstr("--model has no effect with --task list"));
}

// An interrupted call of a model may have left them there.
TEST_F(OsdnEval, the_dummy_leaves_the_answers_of_others_alone) {
  const std::string answers = "{}\n";
  test::put_file(*dir_ / "d.json.answers.jsonl", answers);
  run(concat("--task ppl --model dummy --out d.json ", kUsual), ExitCode::kOk);
  EXPECT_EQ(read_file(*dir_ / "d.json.answers.jsonl"), answers);
}

// What a task says that it reads is there, and what is there is read.
TEST_F(OsdnEval, options_and_tasks_know_each_other) {
  const std::string help = run("--help", ExitCode::kOk);
  std::set<std::string> options, read;
  const std::regex name("--[a-z-]+");
  for (std::sregex_iterator it(help.begin(), help.end(), name), end; it != end;
       ++it) {
    options.insert(it->str());
  }
  for (const TaskDefinition& task : task_table()) {
    for (const char* protocol : {"", "jrt-once", "osdn-authors-once"}) {
      EvalOptions with;
      with.protocol = protocol;
      with.generated.mode = "same";
      for (const std::string& option : task.reads(with)) {
        EXPECT_TRUE(options.contains(option)) << option;
        read.insert(option);
      }
    }
  }
  for (const char* of_all :
       {"--help", "--version", "--task", "--model", "--data", "--tokenizer",
        "--device", "--dtype", "--batch-tokens", "--threads", "--limit",
        "--answers", "--hash-requests", "--out", "--samples", "--csv",
        "--compare", "--force"}) {
    read.insert(of_all);
  }
  EXPECT_EQ(options, read);
}

TEST_F(OsdnEval, numbers_that_no_64_bits_hold_are_refused) {
  for (const char* option :
       {"--limit", "--batch-tokens", "--threads", "--shots", "--documents",
        "--context-length", "--answer-length", "--target-tokens",
        "--record-tokens", "--records", "--repeat", "--mqar-vocab",
        "--mqar-passes"}) {
    EXPECT_THAT(
        run(concat("--task ppl --model osdn ", option, " 18446744073709551618"),
            ExitCode::kUsage),
        HasSubstr("is not an integer below 2^63"))
        << option;
  }
}

TEST_F(OsdnEval, an_output_is_never_an_input) {
  const std::string before = read_file(*dir_ / "my text.txt");
  for (const char* outputs :
       {"--out 'my text.txt'", "--samples './my text.txt'", "--out t.model",
        "--out same.json --samples same.json"}) {
    EXPECT_THAT(run(concat("--task ppl --model osdn ", kUsual, outputs),
                    ExitCode::kUsage),
                HasSubstr("give it a name of its own"));
  }
  EXPECT_EQ(read_file(*dir_ / "my text.txt"), before);
}

TEST_F(OsdnEval, wrong_inputs) {
  EXPECT_THAT(
      run(concat("--task ppl --model nowhere ", kUsual), ExitCode::kBadInput),
      HasSubstr("nowhere does not exist or cannot be entered"));
  EXPECT_THAT(run("--task ppl --model osdn --tokenizer large.model --data 'my "
                  "text.txt'",
                  ExitCode::kBadInput),
              HasSubstr("the model was trained with"));
  EXPECT_THAT(run("--compare t.model t.model", ExitCode::kBadInput),
              HasSubstr("t.model: this is not JSON"));
}

}  // namespace
}  // namespace osdn::eval
