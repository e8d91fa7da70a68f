#include "osdn/checkpoint/weight_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "support/temp_dir.h"
#include "support/tensors.h"

namespace osdn::checkpoint {
namespace {

using testing::HasSubstr;

constexpr const char* kIndex = "model.safetensors.index.json";

void write_one(const std::filesystem::path& path, const std::string& name,
               float value) {
  test::Tensors tensors;
  tensors.add<float>(name, DType::kF32, {1}, {value});
  write_safetensors(path, tensors.views());
}

// Two files of one tensor each, and the index over them.
void write_sharded(const test::TempDir& dir, const std::string& weight_map) {
  write_one(dir / "model-1.safetensors", "a", 1);
  write_one(dir / "model-2.safetensors", "b", 2);
  write_file_atomic(dir / kIndex, weight_map);
}

std::string refusal(const std::filesystem::path& path) {
  try {
    const WeightFiles files(path);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
}

TEST(WeightFiles, one_file_or_its_folder) {
  const test::TempDir dir;
  write_one(dir / "model.safetensors", "a", 3);
  for (const auto& path : {dir.path(), dir / "model.safetensors"}) {
    const WeightFiles files(path);
    ASSERT_TRUE(files.contains("a"));
    EXPECT_EQ(*static_cast<const float*>(files.tensor("a").data), 3.0F);
    EXPECT_EQ(files.metadata().at("format"), "pt");
    EXPECT_THROW(files.tensor("b"), Error);
  }
}

TEST(WeightFiles, several_files_with_an_index) {
  const test::TempDir dir;
  write_sharded(dir,
                R"({"metadata":{"total_size":8},"weight_map":)"
                R"({"a":"model-1.safetensors","b":"model-2.safetensors"}})");
  const WeightFiles files(dir.path());
  ASSERT_EQ(files.tensors().size(), 2U);
  EXPECT_EQ(*static_cast<const float*>(files.tensor("a").data), 1.0F);
  EXPECT_EQ(*static_cast<const float*>(files.tensor("b").data), 2.0F);
}

TEST(WeightFiles, C6_an_index_that_its_files_do_not_bear_out) {
  const struct {
    const char* weight_map;
    const char* message;
  } cases[] = {
      {R"({"weight_map":{"a":"model-1.safetensors","b":"model-1.safetensors"}})",
       "places tensor \"b\" in model-1.safetensors"},
      {R"({"weight_map":{"a":"model-1.safetensors","b":"gone.safetensors"}})",
       "gone.safetensors"},
      {R"({"weight_map":{"c":"model-1.safetensors"}})", "tensor \"c\""},
      {R"({"weight_map":{"a":"../model-1.safetensors"}})",
       "expected the name of a file beside the index"},
      {R"({"weight_map":{"a":1}})", "not an index"},
      {R"({"weight_map":{}})", "empty"},
      {R"({})", "weight_map"},
      {"{", "not an index"},
  };
  for (const auto& [weight_map, message] : cases) {
    const test::TempDir dir;
    write_sharded(dir, weight_map);
    EXPECT_THAT(refusal(dir.path()), HasSubstr(message)) << weight_map;
  }
}

TEST(WeightFiles, C6_a_tensor_that_the_index_does_not_know) {
  const test::TempDir dir;
  test::Tensors tensors;
  tensors.add<float>("a", DType::kF32, {1}, {1.0F});
  tensors.add<float>("extra", DType::kF32, {1}, {1.0F});
  write_safetensors(dir / "model-1.safetensors", tensors.views());
  write_file_atomic(dir / kIndex,
                    R"({"weight_map":{"a":"model-1.safetensors"}})");
  EXPECT_THAT(refusal(dir.path()), HasSubstr("\"extra\""));
}

TEST(WeightFiles, a_folder_without_weights_says_what_is_looked_for) {
  const test::TempDir dir;
  EXPECT_THAT(refusal(dir.path()), HasSubstr(kIndex));
  EXPECT_THAT(refusal(dir / "absent"), HasSubstr("absent"));
}

}  // namespace
}  // namespace osdn::checkpoint
