// Mistakes on the command line, in every program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "osdn/core/concat.h"
#include "support/mpirun.h"
#include "support/program.h"
#include "support/temp_dir.h"

namespace osdn {
namespace {

using test::Program;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

std::string path_of(const std::string& program) {
  return concat(OSDN_BIN_DIR "/", program);
}

/// What the program says on standard error before it ends with code 2.
std::string refusal(const std::string& program, const Words& arguments) {
  Words all = {path_of(program)};
  all.insert(all.end(), arguments.begin(), arguments.end());
  Program running(all);
  EXPECT_EQ(running.wait(), 2) << program << running.err();
  EXPECT_EQ(running.out(), "");
  return running.err();
}

TEST(CommandLine, a_wrong_subcommand_comes_with_the_nearest_one) {
  struct Case {
    const char* program;
    Words arguments;
    const char* said;
  };
  for (const Case& one : std::vector<Case>{
           {"osdn-bench", {"trian"}, "trian is not known; did you mean train?"},
           {"osdn-bench",
            {"kernel", "--json", "x.json"},
            "kernel is not known; did you mean kernels?"},
           {"osdn-data",
            {"tokenise", "a.txt", "--output", "b"},
            "tokenise is not known; did you mean tokenize?"},
           {"osdn-data",
            {"train_tokenizer", "a.txt"},
            "did you mean train-tokenizer?"},
           {"osdn-convert",
            {"from_hf", "a", "b"},
            "from_hf is not known; did you mean from-hf?"},
           {"osdn-convert", {"frobnicate"}, "expected one of from-hf, to-hf"},
           {"osdn-bench", {}, "A subcommand is required"}}) {
    EXPECT_THAT(refusal(one.program, one.arguments),
                AllOf(HasSubstr(one.said), HasSubstr("--help"),
                      Not(HasSubstr("not expected"))));
  }
}

TEST(CommandLine, a_wrong_option_comes_with_the_nearest_one) {
  struct Case {
    const char* program;
    Words arguments;
    const char* meant;
  };
  for (const Case& one : std::vector<Case>{
           {"osdn-train", {"--confg", "a"}, "--config"},
           {"osdn-eval", {"--taks", "ppl"}, "--task"},
           {"osdn-generate", {"--promt", "a"}, "--prompt"},
           {"osdn-data", {"verify", "a", "--tokeniser=b"}, "--tokenizer"},
           {"osdn-convert", {"to-hf", "a", "b", "--dtyp", "fp32"}, "--dtype"},
           {"osdn-bench", {"scaling", "--messured", "a"}, "--measured"},
           {"osdn-bench", {"--vers"}, "--version"}}) {
    EXPECT_THAT(refusal(one.program, one.arguments),
                HasSubstr(concat("is not known; did you mean ", one.meant)));
  }
}

// One rank alone has no one to ask: it does not join, which would fail here.
TEST(CommandLine, one_rank_speaks_for_itself) {
  for (const char* program : {"osdn-train", "osdn-eval", "osdn-bench"}) {
    const Words one = {"/usr/bin/env", "PMI_RANK=0", "PMI_SIZE=1",
                       "OSDN_START_TIMEOUT=never", path_of(program)};
    Words help = one, wrong = one;
    help.emplace_back("--help");
    wrong.emplace_back("--hlep");
    Program helped(help);
    EXPECT_EQ(helped.wait(), 0) << helped.err();
    EXPECT_THAT(helped.out(), HasSubstr("--help"));
    Program refused(wrong);
    EXPECT_EQ(refused.wait(), 2);
    EXPECT_THAT(refused.err(), HasSubstr("did you mean --help?"));
  }
}

TEST(CommandLine, what_would_have_no_effect_or_be_lost_is_refused) {
  const test::TempDir folder;
  const std::string nowhere = (folder / "nowhere/x.json").string();
  const std::string file = (folder / "x.json").string();
  struct Case {
    const char* program;
    Words arguments;
    const char* said;
  };
  const Words train = {"train", "--config", "none"};
  const auto with = [&](Words more) {
    Words all = train;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  for (const Case& one : std::vector<Case>{
           {"osdn-bench", with({"--every-exchange"}), "mpirun -n"},
           {"osdn-bench", with({"--json", nowhere}), "no file can be made"},
           {"osdn-bench", with({"--trace", nowhere}), "no file can be made"},
           {"osdn-bench", with({"--json", file, "--trace", file}),
            "give it a name of its own"},
           {"osdn-bench", with({"--trace", file, "--tokens", "40,80"}),
            "one number of tokens"},
           {"osdn-bench",
            {"train", "--config", "a,b", "--trace", file},
            "one configuration"},
           {"osdn-bench",
            {"collectives", "--json", nowhere},
            "no file can be made"},
           {"osdn-generate",
            {"--model", "a", "--prompt", "b", "--split", "file"},
            "--split requires --prompt-file"},
           {"osdn-generate",
            {"--model", "a", "--field", "b"},
            "--field requires --prompt-file"}}) {
    EXPECT_THAT(refusal(one.program, one.arguments), HasSubstr(one.said));
  }
}

class CommandLinesOfRanks : public test::MpirunTest {
 protected:
  /// What ranks with these arguments say, which do not fit together.
  static std::string refusal_of(const std::string& program,
                                const std::vector<Words>& ranks) {
    Words all;
    for (const Words& arguments : ranks) {
      const Words start = all.empty() ? test::mpirun(1) : Words{":", "-n", "1"};
      all.insert(all.end(), start.begin(), start.end());
      all.push_back(path_of(program));
      all.insert(all.end(), arguments.begin(), arguments.end());
    }
    const auto start = std::chrono::steady_clock::now();
    Program running(all);
    EXPECT_NE(running.wait(), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::seconds(60));
    return running.err();
  }
};

// Each rank has a command line of its own: what is wrong with one is said once,
// with its number, and ends all.
TEST_F(CommandLinesOfRanks, a_mistake_of_one_rank_is_said_and_ends_all) {
  struct Case {
    const char* program;
    Words right, wrong;
    const char* said;
  };
  for (const Case& one : std::vector<Case>{
           {"osdn-train",
            {"--config", "none"},
            {"--confg", "none"},
            "did you mean --config?"},
           {"osdn-eval",
            {"--task", "ppl", "--model", "dummy"},
            {"--task", "ppl", "--mode"},
            "--mode"},
           {"osdn-bench",
            {"collectives"},
            {"colectives"},
            "colectives is not known; did you mean collectives?"}}) {
    for (const bool first : {true, false}) {
      SCOPED_TRACE(concat(one.program, first ? ", rank 0" : ", rank 1"));
      const std::string err =
          refusal_of(one.program, first ? std::vector{one.wrong, one.right}
                                        : std::vector{one.right, one.wrong});
      const std::string rank = concat("rank ", first ? 0 : 1, ": ");
      EXPECT_THAT(err, AllOf(HasSubstr(concat(one.program, ": error: ", rank)),
                             HasSubstr(one.said)));
      EXPECT_EQ(err.find(one.said), err.rfind(one.said));
    }
  }
}

// Copies of a program that is one process.
TEST_F(CommandLinesOfRanks, a_copy_says_which_it_is) {
  for (const char* program : {"osdn-data", "osdn-generate", "osdn-convert"}) {
    EXPECT_THAT(
        refusal_of(program, {{"--version"}, {"--versoin"}}),
        AllOf(HasSubstr("rank 1: "), HasSubstr("did you mean --version?")));
  }
}

TEST_F(CommandLinesOfRanks, ranks_with_different_tasks_are_named) {
  EXPECT_THAT(refusal_of("osdn-train", {{"--config", "none"}, {"--help"}}),
              HasSubstr("rank 1: --help or --version is asked for"));
  EXPECT_THAT(
      refusal_of("osdn-eval", {{"--task", "list"}, {"--compare", "a", "b"}}),
      HasSubstr("rank 0 was started for --task list and rank 1 for --compare"));
  EXPECT_THAT(
      refusal_of("osdn-bench",
                 {{"collectives"}, {"generate", "--config", "a"}}),
      HasSubstr("rank 0 was started for collectives and rank 1 for generate"));
}

// Nothing else compares what they measure or evaluate.
TEST_F(CommandLinesOfRanks, ranks_with_different_options_are_named) {
  const auto bench = [](const char* steps) {
    return Words{"train", "--config", "a", "--tokens", "64", "--steps", steps};
  };
  EXPECT_THAT(
      refusal_of("osdn-bench", {bench("1"), bench("2")}),
      AllOf(HasSubstr("their options differ"),
            HasSubstr("rank 0: train --config a --tokens 64 --steps 1"),
            HasSubstr("rank 1: train --config a --tokens 64 --steps 2")));
  const auto eval = [](const char* model) {
    return Words{"--task", "piqa", "--model", model};
  };
  EXPECT_THAT(refusal_of("osdn-eval", {eval("one"), eval("other")}),
              HasSubstr("rank 1: --task piqa --model other"));
}

}  // namespace
}  // namespace osdn
