// The program: exit codes and messages.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>

#include "data_fixture.h"
#include "osdn/core/file.h"
#include "osdn/core/random.h"

namespace osdn::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int code = -1;
  std::string output;  // stdout and stderr
};

class OsdnData : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kProgram)) {
      if (std::getenv("CI") != nullptr) {
        FAIL() << kProgram << " is missing";
      }
      GTEST_SKIP() << kProgram << " is not built";
    }
    Xoshiro256 random(4);
    std::string text;
    for (int line = 0; line < 400; ++line) {
      text += concat("line ", line);
      for (std::uint64_t word = 0; word < 10; ++word) {
        text += ' ';
        for (std::uint64_t i = 0; i <= random.below(6); ++i) {
          text += static_cast<char>('a' + random.below(8));
        }
      }
      text += '\n';
    }
    put_file(dir_ / "t.txt", text);
  }

  Outcome run(const std::string& arguments) {
    const std::string command = concat("cd ", dir_.path().string(), " && ",
                                       kProgram, " ", arguments, " 2>&1");
    Outcome outcome;
    FILE* pipe = ::popen(command.c_str(), "r");
    char buffer[4096];
    while (const std::size_t got =
               std::fread(buffer, 1, sizeof(buffer), pipe)) {
      outcome.output.append(buffer, got);
    }
    const int status = ::pclose(pipe);
    outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return outcome;
  }
  void expect(const std::string& arguments, ExitCode code,
              const ::testing::Matcher<std::string>& output) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, static_cast<int>(code)) << arguments;
    EXPECT_THAT(outcome.output, output) << arguments;
  }

  static constexpr const char* kProgram = OSDN_BIN_DIR "/osdn-data";
  test::TempDir dir_;
};

TEST_F(OsdnData, from_text_to_shards) {
  expect("train-tokenizer t.txt --vocab-size 290 --output t.model",
         ExitCode::kOk,
         AllOf(HasSubstr("\nlearning 290 pieces from 400 sentences, "),
               HasSubstr("\nlearned in 0:0"),
               HasSubstr("t.model: 290 pieces, sha256 ")));
  expect(
      "train-tokenizer t.txt --vocab-size 290 --max-sentences 300 --output "
      "less.model",
      ExitCode::kOk,
      AllOf(HasSubstr("from 300 sentences, "),
            HasSubstr("(a sample of 400 sentences)")));
  expect("tokenize t.txt --split lines --tokenizer t.model --output shards",
         ExitCode::kOk,
         AllOf(HasSubstr("400 documents"), HasSubstr("tokens/s")));
  expect("inspect shards --tokenizer t.model --documents 1", ExitCode::kOk,
         AllOf(HasSubstr("documents        400"), HasSubstr("\nline 0 ")));
  expect("verify shards --tokenizer t.model", ExitCode::kOk,
         HasSubstr("shard-00000.tokens: sound"));

  expect("tokenize t.txt --tokenizer t.model --output shards", ExitCode::kUsage,
         HasSubstr("--overwrite"));
  expect("train-tokenizer t.txt --vocab-size 295 --output other.model",
         ExitCode::kOk, HasSubstr("295 pieces"));
  expect("verify shards --tokenizer other.model", ExitCode::kBadInput,
         AllOf(HasSubstr("shard-00000.tokens"), HasSubstr("tokenizer")));
  {
    File file = File::open_update(dir_ / "shards" / "shard-00000.tokens");
    file.write_at(300, "\x01\x00", 2);
    file.write_at(302, "\x01\x00", 2);
  }
  expect("verify shards", ExitCode::kBadInput,
         AllOf(HasSubstr("osdn-data: error: "),
               HasSubstr("shard-00000.tokens: offset 256")));
}

TEST_F(OsdnData, G1_unknown_options_are_refused_with_the_nearest_one) {
  expect("tokenize t.txt --tokeniser t.model --output s", ExitCode::kUsage,
         HasSubstr("--tokeniser is not known; did you mean --tokenizer?"));
  expect("inspect shards --document=3", ExitCode::kUsage,
         HasSubstr("did you mean --documents?"));
  EXPECT_FALSE(fs::exists(dir_ / "s"));
}

TEST_F(OsdnData, G2_wrong_values_are_refused_before_any_work) {
  const std::string base = "tokenize t.txt --tokenizer t.model --output s ";
  expect(base + "--split sentences", ExitCode::kUsage,
         HasSubstr("blank-lines"));
  expect(base + "--bos yes", ExitCode::kUsage, HasSubstr("auto, on or off"));
  expect(base + "--threads two", ExitCode::kUsage, HasSubstr("--threads"));
  for (const char* bad :
       {"-1", "0", "1.5", "x", "''", "99999999999999999999"}) {
    expect(base + "--shard-tokens " + bad, ExitCode::kUsage,
           AllOf(HasSubstr("--shard-tokens: \""),
                 HasSubstr("\" is not an integer from 1 on")));
  }
  expect(base + "--max-document-bytes 0", ExitCode::kUsage,
         HasSubstr("--max-document-bytes"));
  expect("inspect shards --documents -1", ExitCode::kUsage,
         HasSubstr("--documents"));
  expect("train-tokenizer t.txt --seed -1 --output m", ExitCode::kUsage,
         HasSubstr("--seed"));
  expect("train-tokenizer t.txt --algorithm words --output m", ExitCode::kUsage,
         HasSubstr("unigram or bpe"));
  expect("tokenize t.txt --output s", ExitCode::kUsage,
         HasSubstr("--tokenizer is required"));
  expect("", ExitCode::kUsage, HasSubstr("subcommand"));
  EXPECT_FALSE(fs::exists(dir_ / "s"));
}

TEST_F(OsdnData, G2_blank_paths_are_refused) {
  for (const char* command :
       {"tokenize ' ' --tokenizer t.model --output s",
        "tokenize t.txt --tokenizer '' --output s",
        "tokenize t.txt --tokenizer t.model --output ' '",
        "train-tokenizer '' --output m", "train-tokenizer t.txt --output ''",
        "inspect ''", "inspect s --tokenizer ''", "verify ' '",
        "verify s --tokenizer ' '"}) {
    expect(command, ExitCode::kUsage, HasSubstr("\" is blank; expected the"));
  }
  EXPECT_FALSE(fs::exists(dir_ / "s"));
}

TEST_F(OsdnData, help_and_version) {
  expect("--help", ExitCode::kOk, HasSubstr("train-tokenizer"));
  expect("tokenize --help", ExitCode::kOk, HasSubstr("--max-document-bytes"));
  expect("--version", ExitCode::kOk, HasSubstr("osdn-data "));
}

TEST_F(OsdnData, missing_files_are_named) {
  expect("verify gone.tokens", ExitCode::kBadInput, HasSubstr("gone.tokens"));
  expect("inspect t.txt", ExitCode::kBadInput,
         HasSubstr("t.txt: offset 0: is not a token shard"));
  expect("tokenize gone.txt --tokenizer gone.model --output s",
         ExitCode::kBadInput, HasSubstr("gone.model"));
  // Found before the learning, of which there is no line.
  expect("train-tokenizer t.txt --output nowhere/m", ExitCode::kUsage,
         AllOf(HasSubstr("nowhere/m: no file can be made there"),
               Not(HasSubstr("read "))));
  fs::create_symlink("loop.txt", dir_ / "loop.txt");
  expect("train-tokenizer loop.txt --output m", ExitCode::kBadInput,
         HasSubstr("loop.txt: cannot be opened"));
}

TEST_F(OsdnData, O3_a_pipe_gets_plain_lines) {
  run("train-tokenizer t.txt --vocab-size 290 --output t.model");
  const Outcome outcome =
      run("tokenize t.txt --tokenizer t.model --output shards");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.output.find('\x1b'), std::string::npos);
  EXPECT_EQ(outcome.output.find('\r'), std::string::npos);
  EXPECT_EQ(outcome.output.back(), '\n');
}

TEST_F(OsdnData, generated_ids_become_shards_with_labels) {
  EXPECT_EQ(run("synth mqar --output m.jsonl -n 20 --length 32 --pairs 3").code,
            0);
  Outcome outcome = run("pack-ids m.jsonl --vocab-size 8192 --output ids");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output,
              HasSubstr("620 tokens of 20 documents in 1 shards, 60 labels"));
  outcome = run("inspect ids");
  EXPECT_EQ(outcome.code, 0) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("their own, at offset"));
  EXPECT_EQ(run("verify ids").code, 0);
  outcome = run("pack-ids m.jsonl --vocab-size 100 --output small");
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.output, HasSubstr("m.jsonl:1"));
  EXPECT_EQ(run("synth mqar --output m.jsonl").code, 2) << "is there already";
}

}  // namespace
}  // namespace osdn::data
