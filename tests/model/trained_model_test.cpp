#include "osdn/model/trained_model.h"

#include <ATen/core/Tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/log.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace osdn::model {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class TrainedModelTest : public testing::Test {
 protected:
  void SetUp() override {
    first_ = test::save_checkpoint(run(), 10, test::osdn_apf_model(), 1);
    second_ = test::save_checkpoint(run(), 20, test::osdn_apf_model(), 2);
  }
  std::filesystem::path run() const { return dir_ / "run"; }
  TrainedModel load(const std::filesystem::path& path) {
    const log::Capture capture([&](log::Level level, std::string_view text) {
      EXPECT_EQ(level, log::Level::kWarn);
      warnings_ += text;
    });
    return load_trained_model(path, at::kFloat, at::kCPU);
  }
  std::string error_of(const std::filesystem::path& path) {
    try {
      load(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      return error.what();
    }
    ADD_FAILURE() << "no Error was thrown";
    return "";
  }
  static void damage(const std::filesystem::path& checkpoint) {
    File file = File::open_update(checkpoint / "model.safetensors");
    file.write_at(file.size() - 1, "\x7F", 1);
  }
  /// Of the embedding, which differs between seeds.
  static double mark(const TrainedModel& trained) {
    return trained.model.parameters().front().tensor.sum().item<double>();
  }

  osdn::test::TempDir dir_;
  std::filesystem::path first_, second_;
  std::string warnings_;
};

TEST_F(TrainedModelTest, a_run_folder_means_its_newest_checkpoint) {
  const TrainedModel newest = load(run());
  EXPECT_EQ(newest.folder, second_);
  const TrainedModel older = load(first_);
  EXPECT_EQ(older.folder, first_);
  EXPECT_NE(mark(newest), mark(older));
  EXPECT_EQ(mark(newest), mark(load(second_)));
  EXPECT_NE(newest.weights_hash, older.weights_hash);
  EXPECT_EQ(newest.weights_hash.size(), 16U);
  EXPECT_EQ(newest.config_hash, older.config_hash);
  EXPECT_EQ(warnings_, "");
}

TEST_F(TrainedModelTest, a_damaged_newest_is_passed_over_with_a_warning) {
  damage(second_);
  EXPECT_EQ(load(run()).folder, first_);
  EXPECT_THAT(warnings_,
              AllOf(HasSubstr("passed over"), HasSubstr(second_.string()),
                    HasSubstr("model.safetensors")));
  EXPECT_THAT(error_of(second_), HasSubstr("model.safetensors"));
  damage(first_);
  EXPECT_THAT(error_of(run()), HasSubstr("no sound checkpoint"));
}

TEST_F(TrainedModelTest, neither_run_nor_checkpoint) {
  EXPECT_THAT(error_of(dir_.path()),
              HasSubstr("neither a run folder (with checkpoints/) nor"));
  EXPECT_THAT(error_of(dir_ / "nowhere"),
              AllOf(HasSubstr("nowhere"), HasSubstr("does not exist")));
}

TEST_F(TrainedModelTest, config_hash_is_of_the_resolved_model_alone) {
  nlohmann::json spelt_out = test::osdn_apf_model();
  spelt_out["conv_size"] = 4;
  nlohmann::json other = test::osdn_apf_model();
  other["conv_size"] = 3;
  test::save_checkpoint(dir_ / "same", 1, spelt_out, 3, "t.model");
  test::save_checkpoint(dir_ / "other", 1, other);
  EXPECT_EQ(load(dir_ / "same").config_hash, load(run()).config_hash);
  EXPECT_NE(load(dir_ / "other").config_hash, load(run()).config_hash);
}

}  // namespace
}  // namespace osdn::model
