// The program over the reference checkpoints: what it reads computes what the
// public code computes, and what it writes is what it read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "interchange/sample_models.h"
#include "osdn/checkpoint/checkpoint_store.h"
#include "osdn/checkpoint/weight_files.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/interchange/folders.h"
#include "support/program.h"
#include "support/shared_data.h"
#include "support/temp_dir.h"

namespace osdn::interchange {
namespace {

namespace fs = std::filesystem;
using checkpoint::WeightFiles;
using nlohmann::json;
using osdn::test::shared_path;
using osdn::test::TempDir;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kProgram = OSDN_BIN_DIR "/osdn-convert";

struct Output {
  int code;
  std::string text;
};

Output run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), kProgram);
  osdn::test::Program program(arguments);
  const int code = program.wait();
  return {code, program.out() + program.err()};
}

class OsdnConvert : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kProgram)) {
      if (std::getenv("CI") != nullptr) FAIL() << kProgram << " is missing";
      GTEST_SKIP() << kProgram << " is not built";
    }
  }
  TempDir dir_{TempDir::memory()};
};

class Reference : public OsdnConvert,
                  public testing::WithParamInterface<const char*> {
 protected:
  fs::path folder() const { return shared_path("golden/hf") / GetParam(); }
};

TEST_P(Reference, check_agrees_in_both_precisions) {
  OSDN_NEEDS_SHARED(std::string("golden/hf/") + GetParam());
  for (const char* dtype : {"fp32", "fp64"}) {
    const Output out = run({"check", folder().string(), "--dtype", dtype});
    EXPECT_EQ(out.code, 0) << out.text;
    EXPECT_THAT(out.text,
                AllOf(HasSubstr("relative RMS"), HasSubstr("expected loss"),
                      HasSubstr("agrees")));
  }
}

TEST_P(Reference, there_and_back_changes_no_bit) {
  OSDN_NEEDS_SHARED(std::string("golden/hf/") + GetParam());
  const Output in =
      run({"from-hf", folder().string(), (dir_ / "ours").string()});
  ASSERT_EQ(in.code, 0) << in.text;
  EXPECT_NO_THROW(checkpoint::open_checkpoint(dir_ / "ours"));
  const Output out =
      run({"to-hf", (dir_ / "ours").string(), (dir_ / "theirs").string()});
  ASSERT_EQ(out.code, 0) << out.text;
  const WeightFiles before(folder());
  const WeightFiles after(dir_ / "theirs");
  ASSERT_EQ(after.tensors().size(), before.tensors().size());
  for (const TensorView& tensor : before.tensors()) {
    const TensorView& again = after.tensor(tensor.name);
    EXPECT_EQ(again.dtype, tensor.dtype) << tensor.name;
    ASSERT_EQ(again.shape, tensor.shape) << tensor.name;
    EXPECT_EQ(std::memcmp(again.data, tensor.data, tensor.bytes()), 0)
        << tensor.name;
  }
  // Every key that both files have, has the same value.
  const json original = json::parse(read_file(folder() / "config.json"));
  const json written = json::parse(read_file(dir_ / "theirs" / "config.json"));
  for (const auto& [key, value] : original.items()) {
    if (written.contains(key) && key != "fuse_cross_entropy") {
      EXPECT_EQ(written.at(key), value) << key;
    }
  }
}

TEST_P(Reference, bf16_shards_compute_nearly_the_same) {
  OSDN_NEEDS_SHARED(std::string("golden/hf/") + GetParam());
  ASSERT_EQ(run({"from-hf", folder().string(), (dir_ / "ours").string()}).code,
            0);
  const Output out =
      run({"to-hf", (dir_ / "ours").string(), (dir_ / "theirs").string(),
           "--dtype", "bf16", "--shard-size", "64KiB"});
  ASSERT_EQ(out.code, 0) << out.text;
  EXPECT_THAT(out.text, HasSubstr("model-00002-of-"));
  fs::copy_file(folder() / "expected.safetensors",
                dir_ / "theirs" / "expected.safetensors");
  const std::string theirs = (dir_ / "theirs").string();
  EXPECT_EQ(run({"check", theirs, "--tolerance", "0.05"}).code, 0);
  const Output strict = run({"check", theirs});
  EXPECT_EQ(strict.code, 1);
  EXPECT_THAT(strict.text, HasSubstr("DIFFERS"));
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, Reference,
    testing::Values("delta_net", "delta_net_gated_tied", "gated_deltanet",
                    "kda", "kda_bounded", "llama", "os_gated_deltanet_tied",
                    "os_kda_apf", "osla_delta_net", "osla_delta_net_apf"),
    [](const auto& one) { return std::string(one.param); });

/// A checkpoint as training writes it, its optimizer beside the weights.
fs::path save(const fs::path& run_dir, const config::ModelConfig& model) {
  config::Config whole;
  whole.run_dir = run_dir.string();
  whole.model = model;
  whole.data.train = {"t"};
  whole.data.context_length = 96;
  whole.training.validate_every = 0;
  test::SampleWeights weights(model);
  std::vector<float> moments(4, 0.5F);
  checkpoint::CheckpointParts parts;
  parts.tensors = {{"model.safetensors", weights.views()},
                   {"optimizer.safetensors",
                    {{"exp_avg", DType::kF32, {4}, moments.data()}}}};
  parts.texts = {{"config.json", config::to_json(whole)}};
  return checkpoint::CheckpointStore(run_dir / "checkpoints")
      .save(3, parts)
      .path;
}

// A public folder becomes a model that osdn-eval takes; out and in again, its
// results are the same to the bit.
TEST_F(OsdnConvert, what_was_imported_is_evaluated) {
  const std::string tokenizer = "data/tokenizers/unigram-1000.model";
  OSDN_NEEDS_SHARED(tokenizer);
  const std::string evaluator = OSDN_BIN_DIR "/osdn-eval";
  if (!fs::exists(evaluator)) GTEST_SKIP() << evaluator << " is not built";
  write_file_atomic(dir_ / "text.txt", "In the beginning was the word.\n");
  const auto evaluate = [&](const fs::path& model) {
    const std::string out = (dir_ / "results.json").string();
    fs::remove(out);
    osdn::test::Program program(
        {evaluator, "--task", "ppl", "--model", model.string(), "--data",
         (dir_ / "text.txt").string(), "--tokenizer",
         shared_path(tokenizer).string(), "--threads", "1", "--out", out});
    EXPECT_EQ(program.wait(), 0) << program.err();
    std::map<std::string, double> values;
    const json report = json::parse(read_file(out));
    for (const json& result : report.at("results")) {
      values[result.at("metric")] = result.at("value");
    }
    return values;
  };
  for (const char* name : {"llama", "kda hybrid", "os_gated_deltanet apf"}) {
    SCOPED_TRACE(name);
    config::ModelConfig model = test::sample_models().at(name);
    model.vocab_size = 1000;
    const fs::path first = save(dir_ / name, model);
    const auto step = [&](const char* command, const fs::path& from,
                          const std::string& to) {
      const fs::path made = dir_ / (std::string(name) + to);
      const Output out = run({command, from.string(), made.string()});
      EXPECT_EQ(out.code, 0) << out.text;
      return made;
    };
    const fs::path ours = step("from-hf", step("to-hf", first, " 1"), " 2");
    const auto values = evaluate(ours);
    EXPECT_GT(values.at("word_perplexity"), 1);
    EXPECT_EQ(values, evaluate(first));
  }
}

TEST_F(OsdnConvert, T12_only_weights_leave_a_run) {
  save(dir_ / "run", test::sample_models().at("os_kda apf"));
  const Output out =
      run({"to-hf", (dir_ / "run").string(), (dir_ / "theirs").string()});
  ASSERT_EQ(out.code, 0) << out.text;
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir_ / "theirs")) {
    names.insert(entry.path().filename().string());
  }
  EXPECT_EQ(names, (std::set<std::string>{"config.json", "model.safetensors"}));
  const json keys = json::parse(read_file(dir_ / "theirs" / "config.json"));
  EXPECT_EQ(keys.at("max_position_embeddings"), 96);
}

TEST_F(OsdnConvert, a_folder_that_holds_something_is_left_alone) {
  save(dir_ / "run", test::sample_models().at("kda"));
  fs::create_directories(dir_ / "theirs");
  write_file_atomic(dir_ / "theirs" / "mine.txt", "mine");
  const Output out =
      run({"to-hf", (dir_ / "run").string(), (dir_ / "theirs").string()});
  EXPECT_EQ(out.code, static_cast<int>(ExitCode::kUsage));
  EXPECT_THAT(out.text, HasSubstr("exists already"));
  EXPECT_EQ(read_file(dir_ / "theirs" / "mine.txt"), "mine");
  for (const auto& entry : fs::directory_iterator(dir_.path())) {
    EXPECT_EQ(entry.path().string().find(".tmp-"), std::string::npos);
  }
}

TEST_F(OsdnConvert, mistakes_are_usage_errors_that_say_what_is_right) {
  save(dir_ / "run", test::sample_models().at("kda"));
  const std::string from = (dir_ / "run").string();
  const std::string to = (dir_ / "theirs").string();
  const int usage = static_cast<int>(ExitCode::kUsage);
  EXPECT_EQ(run({}).code, usage);
  EXPECT_EQ(run({"to-hf", from, to, "--dtype", "fp8"}).code, usage);
  const Output size = run({"to-hf", from, to, "--shard-size", "5XB"});
  EXPECT_EQ(size.code, usage);
  EXPECT_THAT(size.text, HasSubstr("--shard-size is \"5XB\""));
  EXPECT_FALSE(fs::exists(to));
  const std::vector<std::vector<std::string>> blank = {
      {"to-hf", "", to},   {"to-hf", from, " "},
      {"from-hf", "", to}, {"from-hf", from, ""},
      {"check", " "},      {"from-hf", from, to, "--tokenizer", ""}};
  for (const std::vector<std::string>& arguments : blank) {
    const Output out = run(arguments);
    EXPECT_EQ(out.code, usage);
    EXPECT_THAT(out.text, HasSubstr("\" is blank; expected the path"));
  }
  const Output missing = run({"check", (dir_ / "nowhere").string()});
  EXPECT_EQ(missing.code, static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(missing.text, HasSubstr("nowhere/config.json"));
}

TEST_F(OsdnConvert, a_damaged_checkpoint_is_not_exported) {
  const fs::path checkpoint =
      save(dir_ / "run", test::sample_models().at("kda"));
  File file = File::open_update(checkpoint / "model.safetensors");
  const std::uint64_t last = file.size() - 1;
  char byte = 0;
  file.read_at(last, &byte, 1);
  byte = static_cast<char>(byte ^ 1);
  file.write_at(last, &byte, 1);
  file.close();
  const Output out =
      run({"to-hf", (dir_ / "run").string(), (dir_ / "theirs").string()});
  EXPECT_EQ(out.code, static_cast<int>(ExitCode::kBadInput));
  EXPECT_THAT(out.text, HasSubstr("no sound checkpoint"));
}

}  // namespace
}  // namespace osdn::interchange
