// The program: texts, states, exit codes, messages, signals.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "osdn/checkpoint/safetensors.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/utf8.h"
#include "osdn/data/token_shard.h"
#include "osdn/tokenizer/tokenizer.h"
#include "support/program.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace osdn::generate {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kProgram = OSDN_BIN_DIR "/osdn-generate";

struct Output {
  std::string out, err;
};

class OsdnGenerate : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<test::TempDir>();
    test::write_tokenizer(*dir_ / "t.model");
    test::write_tokenizer(*dir_ / "large.model", test::kVocab + 1);
    test::save_checkpoint(*dir_ / "run", 1, test::osdn_apf_model(), 7,
                          (*dir_ / "t.model").string());
    test::save_checkpoint(*dir_ / "other", 1, test::osdn_apf_model(), 8);
    test::save_checkpoint(*dir_ / "plain", 1, test::deltanet_model(), 7);
    test::put_file(*dir_ / "p.txt", "abc abd\nx\ncab dab\n");
    test::put_file(*dir_ / "p.jsonl",
                   "{\"text\":\"abc abd\"}\n{\"text\":\"x\"}\n"
                   "{\"text\":\"cab dab\"}\n");
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

  /// Runs in the folder of the files above; `before` feeds standard input.
  static Output run(const std::string& arguments, ExitCode code,
                    const std::string& before = "true") {
    const std::string command =
        concat("cd ", dir_->path().string(), " && ", before, " | ", kProgram,
               " ", arguments, " >out.txt 2>err.txt");
    const int status = std::system(command.c_str());
    const Output output{read_file(*dir_ / "out.txt"),
                        read_file(*dir_ / "err.txt")};
    EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1,
              static_cast<int>(code))
        << arguments << "\n"
        << output.out << output.err;
    return output;
  }
  static std::vector<json> json_of(const std::string& arguments,
                                   const std::string& before = "true") {
    std::istringstream lines(
        run(concat(arguments, " --json"), ExitCode::kOk, before).out);
    std::vector<json> all;
    for (std::string line; std::getline(lines, line);) {
      all.push_back(json::parse(line));
    }
    if (all.empty()) throw std::runtime_error("no line of JSON");
    return all;
  }
  static std::string error(const std::string& arguments, ExitCode code,
                           const std::string& before = "true") {
    const Output output = run(arguments, code, before);
    EXPECT_EQ(output.out, "");
    EXPECT_EQ(std::count(output.err.begin(), output.err.end(), '\n'), 1)
        << output.err;
    return output.err;
  }

  static std::unique_ptr<test::TempDir> dir_;
};
std::unique_ptr<test::TempDir> OsdnGenerate::dir_;

constexpr const char* kDraw =
    "--temperature 1.5 --top-k 100 --top-p 0.98 --repetition-penalty 1.1 "
    "--seed 5 --dtype fp64";

TEST_F(OsdnGenerate, one_prompt_is_continued_on_standard_output) {
  const auto all = json_of("--model run --prompt 'abc abd' --max-new-tokens 9");
  ASSERT_EQ(all.size(), 1U);
  const json& result = all.front();
  EXPECT_EQ(result.at("prompt"), "abc abd");
  EXPECT_EQ(result.at("tokens").size(), 9U);
  EXPECT_EQ(result.at("finish"), "length");
  const tokenizer::Tokenizer tokenizer(*dir_ / "t.model");
  // The begin token stands in front.
  EXPECT_EQ(result.at("prompt_tokens"), tokenizer.encode("abc abd").size() + 1);
  const std::string text = result.at("text");

  const Output plain =
      run("--model run --prompt 'abc abd' --max-new-tokens 9", ExitCode::kOk);
  EXPECT_EQ(plain.out, text + "\n");
  EXPECT_THAT(plain.err,
              testing::MatchesRegex(
                  "prefill [0-9]+ tokens in [0-9.]+ s, [0-9.]+k? tokens/s; "
                  "decode 9 tokens in [0-9.]+ s, [0-9.]+k? tokens/s\n"));
  EXPECT_EQ(run("--model run/checkpoints/step_000000001 --prompt 'abc abd' "
                "--max-new-tokens 9 --echo --prefill-tokens 3",
                ExitCode::kOk)
                .out,
            "abc abd" + text + "\n");
  EXPECT_EQ(
      run("--model run --max-new-tokens 9", ExitCode::kOk, "echo abc abd").out,
      text + "\n");
}

TEST_F(OsdnGenerate, prompts_side_by_side_equal_each_alone) {
  const std::string common = concat("--model run --max-new-tokens 20 ", kDraw);
  const auto together = json_of(concat(common, " --prompt-file p.txt"));
  ASSERT_EQ(together.size(), 3U);
  EXPECT_EQ(json_of(concat(common, " --prompt-file p.jsonl --batch 2")),
            together);
  EXPECT_EQ(json_of(concat(common,
                           " --prompt 'abc abd' --prompt x --prompt "
                           "'cab dab' --prefill-tokens 2 --threads 1")),
            together);
  const std::string plain =
      run(concat(common, " --prompt-file p.txt"), ExitCode::kOk).out;
  std::string expected;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(together[i].at("index"), i);
    expected += concat("--- ", i + 1, "/3\n",
                       together[i].at("text").get<std::string>(), "\n");
  }
  EXPECT_EQ(plain, expected);
  // The first prompt's random stream is the same alone.
  EXPECT_EQ(json_of(concat(common, " --prompt 'abc abd'")).front(),
            together.front());
  // The prompt is the same and the stream is not.
  const auto twice = json_of(concat(common, " --prompt x --prompt x"));
  EXPECT_NE(twice[0].at("tokens"), twice[1].at("tokens"));
}

TEST_F(OsdnGenerate, a_saved_state_goes_on_as_the_uncut_run) {
  int gone_on = 0;
  for (const std::string& options :
       {std::string("--dtype fp64"), std::string(kDraw),
        std::string("--temperature 2 --seed 2 --stop fed --stop dg --dtype "
                    "fp64")}) {
    const auto whole = json_of(concat(
        "--model run --prompt-file p.txt --max-new-tokens 60 ", options));
    for (const int cut : {1, 17}) {
      auto parts =
          json_of(concat("--model run --prompt-file p.txt --save-state s.state "
                         "--max-new-tokens ",
                         cut, " ", options));
      const bool all_ended = std::all_of(
          parts.begin(), parts.end(),
          [](const json& part) { return part.at("finish") != "length"; });
      if (all_ended) {
        EXPECT_THAT(error("--model run --load-state s.state", ExitCode::kUsage),
                    HasSubstr("have ended"));
        continue;
      }
      ++gone_on;
      // Everything else comes from the file.
      const auto rest = json_of(
          concat("--model run --load-state s.state --save-state s.state "
                 "--max-new-tokens ",
                 60 - cut));
      ASSERT_EQ(rest.size(), parts.size());
      for (std::size_t i = 0; i < parts.size(); ++i) {
        json ids = parts[i].at("tokens");
        for (const json& id : rest[i].at("tokens")) ids.push_back(id);
        const std::string text = parts[i].at("text").get<std::string>() +
                                 rest[i].at("text").get<std::string>();
        const std::string expected = whole[i].at("text");
        EXPECT_EQ(ids, whole[i].at("tokens")) << options << " " << cut;
        EXPECT_EQ(rest[i].at("finish"), whole[i].at("finish"));
        // What may still become a stop string or a character is in the state.
        EXPECT_TRUE(expected.starts_with(text)) << expected << "|" << text;
        EXPECT_LE(expected.size(),
                  text.size() + (rest[i].at("finish") == "length" ? 5 : 0));
      }
    }
  }
  EXPECT_GE(gone_on, 5);
}

TEST_F(OsdnGenerate, a_state_takes_further_prompts) {
  const std::string state = "--model run --dtype fp64 --load-state base.state ";
  run("--model run --dtype fp64 --prompt 'abc abd' --max-new-tokens 0 "
      "--save-state base.state",
      ExitCode::kOk);
  // The same ids as in one prompt.
  const auto whole = json_of(
      "--model run --dtype fp64 --prompt 'abc abd cab' --max-new-tokens 15");
  const auto parts = json_of(state + "--prompt cab --max-new-tokens 15");
  EXPECT_EQ(parts.front().at("tokens"), whole.front().at("tokens"));
  // One state for several prompts.
  const auto forks =
      json_of(state + "--prompt cab --prompt dad --max-new-tokens 15");
  ASSERT_EQ(forks.size(), 2U);
  EXPECT_EQ(forks[0].at("tokens"), whole.front().at("tokens"));
  EXPECT_NE(forks[1].at("tokens"), forks[0].at("tokens"));

  run("--model run --prompt-file p.txt --max-new-tokens 3 --save-state "
      "three.state",
      ExitCode::kOk);
  EXPECT_THAT(error("--model run --load-state three.state --prompt a --prompt "
                    "b",
                    ExitCode::kUsage),
              AllOf(HasSubstr("three.state holds 3 sequences"),
                    HasSubstr("2 prompts")));
}

TEST_F(OsdnGenerate, an_ended_sequence_stays_ended_without_a_prompt) {
  const auto whole = json_of("--model run --prompt x --max-new-tokens 30");
  const std::string text = whole.front().at("text");
  const std::size_t letter = text.find_first_of("abcdefgh", 2);
  ASSERT_NE(letter, std::string::npos) << text;
  const std::string stop = text.substr(letter, 1);
  const auto stopped = json_of(
      concat("--model run --prompt x --max-new-tokens 30 --save-state e.state "
             "--stop '",
             stop, "'"));
  EXPECT_EQ(stopped.front().at("finish"), "stop");
  EXPECT_EQ(stopped.front().at("text"), text.substr(0, text.find(stop)));
  EXPECT_THAT(error("--model run --load-state e.state", ExitCode::kUsage),
              HasSubstr("have ended; give a --prompt"));
  EXPECT_EQ(json_of("--model run --load-state e.state --prompt a "
                    "--max-new-tokens 2")
                .front()
                .at("prompt"),
            "a");
}

TEST_F(OsdnGenerate, a_state_of_something_else_is_refused) {
  run("--model run --prompt x --max-new-tokens 1 --save-state o.state",
      ExitCode::kOk);
  const std::string load = "--load-state o.state --tokenizer t.model --model ";
  EXPECT_THAT(error(load + "other", ExitCode::kBadInput),
              HasSubstr("was saved with the weights"));
  EXPECT_THAT(error(load + "plain", ExitCode::kBadInput),
              HasSubstr("was saved with the model configuration"));
  EXPECT_THAT(error(load + "run --dtype fp64", ExitCode::kBadInput),
              HasSubstr("was saved with dtype fp32"));
  EXPECT_THAT(error("--model run --load-state t.model", ExitCode::kBadInput),
              HasSubstr("t.model"));
  EXPECT_THAT(error("--model run --load-state nowhere", ExitCode::kBadInput),
              HasSubstr("nowhere"));
}

TEST_F(OsdnGenerate, the_shards_of_the_run_decide_tokenizer_and_begin_token) {
  const tokenizer::Tokenizer tokenizer(*dir_ / "t.model");
  const auto write_shard = [&](const Hash128& hash, bool bos) {
    data::ShardHeader header;
    header.vocab_size = test::kVocab;
    header.tokenizer_hash = hash;
    if (bos) header.bos_id = 1;
    fs::create_directories(*dir_ / "t");
    data::TokenShardWriter writer(*dir_ / "t" / "shard-00000.tokens", header);
    writer.add_document(std::vector<std::int32_t>{5, 6});
    writer.finish();
  };
  const auto prompt_tokens = [&](const char* options) {
    return json_of(
               concat("--model run --prompt x --max-new-tokens 1 ", options))
        .front()
        .at("prompt_tokens")
        .get<std::size_t>();
  };
  const std::size_t bare = tokenizer.encode("x").size();
  EXPECT_EQ(prompt_tokens(""), bare + 1);
  write_shard(tokenizer.hash(), false);
  EXPECT_EQ(prompt_tokens(""), bare);
  EXPECT_EQ(prompt_tokens("--bos 1"), bare + 1);
  write_shard(tokenizer.hash(), true);
  EXPECT_EQ(prompt_tokens(""), bare + 1);
  EXPECT_EQ(prompt_tokens("--bos 0"), bare);
  write_shard({1, 2}, true);
  EXPECT_THAT(error("--model run --prompt x", ExitCode::kBadInput),
              AllOf(HasSubstr("t.model has hash"),
                    HasSubstr("shard-00000.tokens); use that one")));
  fs::remove_all(*dir_ / "t");
}

TEST_F(OsdnGenerate, wrong_command_lines) {
  const std::string model = "--model run --prompt x ";
  const struct {
    std::string arguments, message;
  } cases[] = {
      {model + "--prompt-file p.txt", "contradict each other"},
      {model + "--top-k -1", "--top-k is -1"},
      {model + "--stop ''", "a stop string is empty"},
      {model + "--save-state nowhere/s", "nowhere/s"},
      {model + "--tokenizer t.model --save-state t.model",
       "another file of this call"},
      {"--model other --prompt x", "names no tokenizer"},
  };
  for (const auto& [arguments, message] : cases) {
    EXPECT_THAT(error(arguments, ExitCode::kUsage), HasSubstr(message));
  }
  EXPECT_THAT(run("--modle run", ExitCode::kUsage).err,
              HasSubstr("did you mean --model?"));
}

TEST_F(OsdnGenerate, wrong_inputs) {
  const struct {
    std::string arguments, message;
  } cases[] = {
      {"--model run", "standard input is empty"},
      {"--model run --prompt x --prompt ''", "--prompt number 2 is empty"},
      {"--model nowhere --prompt x", "nowhere does not exist"},
      {"--model run --prompt x --tokenizer p.txt", "p.txt"},
      {"--model other --prompt x --tokenizer large.model",
       "use the tokenizer that the model was trained with"},
      {"--model run --prompt x --tokenizer large.model",
       "large.model has hash"},
  };
  for (const auto& [arguments, message] : cases) {
    EXPECT_THAT(error(arguments, ExitCode::kBadInput), HasSubstr(message));
  }
}

// Enough prompts that the end is far away.
TEST_F(OsdnGenerate, a_signal_ends_with_what_was_made) {
  constexpr int kPrompts = 300;
  std::string prompts;
  for (int i = 0; i < kPrompts; ++i) prompts += "abc abd\n";
  test::put_file(*dir_ / "many.txt", prompts);
  test::Program program({kProgram, "--model", (*dir_ / "run").string(),
                         "--prompt-file", (*dir_ / "many.txt").string(),
                         "--seed", "1", "--max-new-tokens", "1000", "--batch",
                         "1", "--threads", "1", "--save-state",
                         (*dir_ / "i.state").string()});
  while (program.out().size() < 50 && program.running()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ASSERT_TRUE(program.running()) << program.err();
  program.signal(SIGINT);
  EXPECT_EQ(program.wait(), 0);
  EXPECT_EQ(first_invalid_utf8(program.out()), std::nullopt);
  EXPECT_THAT(program.out(), AllOf(testing::StartsWith("--- 1/300\n"),
                                   Not(HasSubstr("--- 300/300"))));
  EXPECT_TRUE(program.out().ends_with("\n"));
  EXPECT_THAT(program.err(),
              AllOf(HasSubstr("stopped by SIGINT"), HasSubstr("; decode ")));
  const auto rest =
      json_of("--model run --load-state i.state --max-new-tokens 1");
  ASSERT_EQ(rest.size(), 300U);
  EXPECT_EQ(rest.front().at("tokens").size(), 0U);  // it had ended
  EXPECT_EQ(rest.back().at("tokens").size(), 1U);
}

TEST_F(OsdnGenerate, help_names_every_option) {
  const std::string help = run("--help", ExitCode::kOk).out;
  for (const char* option :
       {"--prompt-file", "--top-k", "--save-state", "--stop", "--json"}) {
    EXPECT_THAT(help, HasSubstr(option));
  }
}

}  // namespace
}  // namespace osdn::generate
