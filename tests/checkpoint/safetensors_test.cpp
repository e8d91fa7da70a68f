#include "osdn/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/hash.h"
#include "support/shared_data.h"
#include "support/temp_dir.h"
#include "support/tensors.h"

namespace osdn::checkpoint {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

test::Tensors some_tensors() {
  test::Tensors tensors;
  tensors.add<std::uint8_t>("bytes", DType::kU8, {3}, {1, 2, 255});
  tensors.add<std::uint16_t>("half", DType::kBF16, {1, 3},
                             {0x3F80, 0x4000, 0xFF7F});
  tensors.add<float>("model.embeddings.weight", DType::kF32, {2, 2},
                     {1.5F, -2.0F, 0.0F, 3e38F});
  tensors.add<double>("wide", DType::kF64, {}, {0.1});
  tensors.add<std::int64_t>("empty", DType::kI64, {4, 0}, {});
  return tensors;
}

TEST(Safetensors, what_is_written_is_read) {
  const test::TempDir dir;
  const auto path = dir / "a.safetensors";
  const test::Tensors tensors = some_tensors();
  const WrittenFile written =
      write_safetensors(path, tensors.views(), {{"step", "12"}});
  EXPECT_EQ(written.size, size_of_file(path));
  EXPECT_EQ(written.xxh3, xxh3_64_of_file(path));

  const SafetensorsFile file(path);
  EXPECT_EQ(file.tensors().size(), tensors.views().size());
  for (const TensorView& expected : tensors.views()) {
    ASSERT_TRUE(file.contains(expected.name));
    const TensorView& read = file.tensor(expected.name);
    EXPECT_EQ(read.dtype, expected.dtype);
    EXPECT_EQ(read.shape, expected.shape);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.data) % size_of(read.dtype),
              0U);
    // memcmp may not be given the null pointer of an empty tensor.
    EXPECT_TRUE(expected.bytes() == 0 ||
                std::memcmp(read.data, expected.data, expected.bytes()) == 0);
  }
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}, {"step", "12"}}));
}

// Somebody who waits sees that it moves: with every block, and with every sync
// of 64 MiB and the last.
TEST(Safetensors, shows_how_far_it_has_come) {
  const test::TempDir dir;
  const auto path = dir / "a.safetensors";
  WriteProgress progress;
  write_safetensors(path, some_tensors().views(), {}, &progress);
  const std::uint64_t few = progress.now().count;
  EXPECT_EQ(progress.now().at, "reading back " + path.string());
  test::Tensors large;
  const std::int64_t megabytes = 65;
  large.add<float>("w", DType::kF32, {megabytes << 18},
                   std::vector<float>(megabytes << 18, 1.0F));
  WriteProgress longer;
  write_safetensors(path, large.views(), {}, &longer);
  // 64 blocks more; around the sync between two of them two places more.
  EXPECT_GE(longer.now().count, few + 64 + 2 - some_tensors().views().size());
  EXPECT_EQ(size_of_file(path) >> 20, 65U);
}

// Against the format's text, not against our own reader.
TEST(Safetensors, C5_the_bytes_are_those_of_the_format) {
  const test::TempDir dir;
  const auto path = dir / "a.safetensors";
  write_safetensors(path, some_tensors().views());
  const std::string bytes = read_file(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0U);
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  EXPECT_EQ(header.at("__metadata__").at("format"), "pt");
  EXPECT_EQ(header.size(), 6U);
  EXPECT_EQ(header.at("half").at("dtype"), "BF16");
  EXPECT_EQ(header.at("half").at("shape"), nlohmann::json({1, 3}));
  EXPECT_EQ(header.at("wide").at("shape"), nlohmann::json::array());
  const auto offsets = header.at("model.embeddings.weight")
                           .at("data_offsets")
                           .get<std::vector<std::size_t>>();
  ASSERT_EQ(offsets.at(1) - offsets.at(0), 16U);
  EXPECT_EQ(offsets.at(0) % 4, 0U);
  float value = 0;
  std::memcpy(&value, bytes.data() + 8 + length + offsets.at(0) + 4, 4);
  EXPECT_EQ(value, -2.0F);
  EXPECT_EQ(bytes.size(), 8 + length + 3 + 6 + 16 + 8);
}

TEST(Safetensors, C5_a_tied_head_that_is_left_out_is_left_out) {
  const test::TempDir dir;
  test::Tensors tensors;
  tensors.add<float>("model.embeddings.weight", DType::kF32, {1}, {1.0F});
  write_safetensors(dir / "a.safetensors", tensors.views());
  const SafetensorsFile file(dir / "a.safetensors");
  EXPECT_FALSE(file.contains("lm_head.weight"));
  EXPECT_EQ(file.tensors().size(), 1U);
}

TEST(Safetensors, no_tensors_at_all) {
  const test::TempDir dir;
  write_safetensors(dir / "a.safetensors", {});
  EXPECT_TRUE(SafetensorsFile(dir / "a.safetensors").tensors().empty());
}

TEST(Safetensors, an_unaligned_tensor_is_readable) {
  const test::TempDir dir;
  const auto path = dir / "a.safetensors";
  std::string header =
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
      R"("b":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}})";
  std::string file_bytes(8, '\0');
  file_bytes[0] = static_cast<char>(header.size());
  const double value = 2.5;
  file_bytes += header + "\x07";
  file_bytes.append(reinterpret_cast<const char*>(&value), 8);
  write_file_atomic(path, file_bytes);
  const SafetensorsFile file(path);
  EXPECT_EQ(*static_cast<const double*>(file.tensor("b").data), 2.5);
}

TEST(Safetensors, views_survive_a_move_of_the_file) {
  const test::TempDir dir;
  write_safetensors(dir / "a.safetensors", some_tensors().views());
  SafetensorsFile first(dir / "a.safetensors");
  const SafetensorsFile second = std::move(first);
  EXPECT_EQ(*static_cast<const double*>(second.tensor("wide").data), 0.1);
}

TEST(Safetensors, a_missing_tensor_is_named_with_the_nearest) {
  const test::TempDir dir;
  const auto path = dir / "a.safetensors";
  write_safetensors(path, some_tensors().views());
  const SafetensorsFile file(path);
  try {
    file.tensor("model.embedings.weight");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), HasSubstr(path.string()));
    EXPECT_THAT(error.what(), HasSubstr("\"model.embeddings.weight\""));
  }
}

TEST(Safetensors, the_writer_refuses_what_no_reader_takes) {
  const test::TempDir dir;
  const auto path = dir / "a.safetensors";
  test::Tensors twice;
  twice.add<float>("w", DType::kF32, {1}, {1.0F});
  twice.add<float>("w", DType::kF32, {1}, {2.0F});
  EXPECT_THROW(write_safetensors(path, twice.views()), Error);
  test::Tensors reserved;
  reserved.add<float>("__metadata__", DType::kF32, {1}, {1.0F});
  EXPECT_THROW(write_safetensors(path, reserved.views()), Error);
  test::Tensors not_utf8;
  not_utf8.add<float>("\xFF", DType::kF32, {1}, {1.0F});
  EXPECT_THROW(write_safetensors(path, not_utf8.views()), Error);
  const std::vector<TensorView> no_data = {{"w", DType::kF32, {1}, nullptr}};
  EXPECT_THROW(write_safetensors(path, no_data), Error);
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Safetensors, files_of_the_public_python_models_are_read) {
  OSDN_NEEDS_SHARED("golden/hf");
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           test::shared_path("golden"))) {
    if (entry.path().extension() == ".safetensors") {
      EXPECT_FALSE(SafetensorsFile(entry.path()).tensors().empty())
          << entry.path();
      ++files;
    }
  }
  EXPECT_GT(files, 10);
}

}  // namespace
}  // namespace osdn::checkpoint
