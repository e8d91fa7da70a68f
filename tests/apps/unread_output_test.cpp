// Standard output is a pipe whose reader has left, as with `| head -n 1`: what
// was to be written to files is there and whole, and nothing is complained of.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "osdn/core/concat.h"
#include "osdn/core/file.h"
#include "support/json.h"
#include "support/program.h"
#include "support/temp_dir.h"
#include "support/tiny_config.h"
#include "support/tiny_model.h"

namespace osdn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::Output;
using test::Program;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

class UnreadOutput : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<test::TempDir>();
    test::write_tokenizer(file("t.model"));
    test::save_checkpoint(file("run"), 1, test::osdn_apf_model(), 7,
                          file("t.model"));
    test::put_file(file("text.txt"), test::tiny_text(2, 40));
    test::write_json(file("tiny.json"), test::tiny_config());
  }
  static void TearDownTestSuite() { dir_.reset(); }

  static std::string file(const std::string& name) {
    return (*dir_ / name).string();
  }

  /// Its standard error; expects exit code 0 and no error.
  static std::string run(const std::string& program, const Words& arguments,
                         Output output = Output::kUnread) {
    Words all = {concat(OSDN_BIN_DIR "/", program)};
    all.insert(all.end(), arguments.begin(), arguments.end());
    Program running(all, output);
    EXPECT_EQ(running.wait(), 0) << program << ": " << running.err();
    EXPECT_THAT(running.err(), Not(HasSubstr("error")));
    return running.err();
  }

  static std::unique_ptr<test::TempDir> dir_;
};
std::unique_ptr<test::TempDir> UnreadOutput::dir_;

TEST_F(UnreadOutput, help_and_version) {
  for (const char* program : {"osdn-data", "osdn-train", "osdn-eval",
                              "osdn-generate", "osdn-convert", "osdn-bench"}) {
    run(program, {"--help"});
    run(program, {"--version"});
  }
}

TEST_F(UnreadOutput, results_of_an_evaluation) {
  run("osdn-eval",
      {"--task", "ppl,q_geo", "--model", file("run"), "--data",
       file("text.txt"), "--split", "lines", "--out", file("results.json"),
       "--samples", file("samples.jsonl"), "--csv", file("tables")});
  EXPECT_EQ(test::read_json(file("results.json")).at("results").size(), 15U);
  EXPECT_GT(fs::file_size(file("samples.jsonl")), 0U);
  EXPECT_TRUE(fs::exists(file("tables/q_geo_window_heads.csv")));
  EXPECT_FALSE(fs::exists(file("results.json.answers.jsonl")));
  run("osdn-eval", {"--compare", file("results.json"), file("results.json")});
}

TEST_F(UnreadOutput, shards_and_generated_documents) {
  run("osdn-data",
      {"tokenize", file("text.txt"), "--split", "lines", "--tokenizer",
       file("t.model"), "--output", file("shards")});
  run("osdn-data", {"inspect", file("shards"), "--tokenizer", file("t.model")});
  run("osdn-data", {"verify", file("shards")}, Output::kFile);
  run("osdn-data", {"synth", "records", "-n", "20", "--records", "8",
                    "--output", file("records.jsonl")});
  const std::string rows = read_file(file("records.jsonl"));
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 20);
}

TEST_F(UnreadOutput, figures_of_a_measurement) {
  run("osdn-bench",
      {"train", "--config", file("tiny.json"), "--tokens", "40",
       "--document-tokens", "20", "--steps", "2", "--json", file("t.json")});
  EXPECT_EQ(test::read_json(file("t.json")).at("training").size(), 1U);
}

TEST_F(UnreadOutput, a_converted_model) {
  run("osdn-convert", {"to-hf", file("run"), file("public")});
  EXPECT_TRUE(test::read_json(file("public/config.json")).is_object());
  run("osdn-convert", {"from-hf", file("public"), file("back")});
}

// A text that nobody reads is not gone on with; a state is.
TEST_F(UnreadOutput, a_generated_text) {
  const Words arguments = {"--model",          file("run"), "--prompt", "abc",
                           "--max-new-tokens", "100000",    "--seed",   "1"};
  EXPECT_THAT(run("osdn-generate", arguments),
              Not(HasSubstr("decode 100000 tokens")));
  const Words state = {"--model",     file("run"), "--prompt",         "abc",
                       "--seed",      "1",         "--max-new-tokens", "30",
                       "--save-state"};
  for (const Output output : {Output::kUnread, Output::kFile}) {
    Words all = state;
    all.push_back(
        file(output == Output::kFile ? "read.state" : "unread.state"));
    run("osdn-generate", all, output);
  }
  EXPECT_EQ(read_file(file("unread.state")), read_file(file("read.state")));
}

}  // namespace
}  // namespace osdn
