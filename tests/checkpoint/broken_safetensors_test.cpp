// Files that are not sound, and what the reader says of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "osdn/checkpoint/safetensors.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "support/temp_dir.h"
#include "support/tensors.h"

namespace osdn::checkpoint {
namespace {

using testing::HasSubstr;

std::string length_bytes(std::uint64_t length) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<char>(length >> (8 * i) & 0xFF);
  }
  return bytes;
}

std::string with_header(const std::string& header, std::size_t data_bytes) {
  return length_bytes(header.size()) + header + std::string(data_bytes, 'x');
}

std::string tensor(const std::string& name, const std::string& shape,
                   const std::string& offsets,
                   const std::string& dtype = "\"F32\"") {
  return "\"" + name + "\":{\"dtype\":" + dtype + ",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

// A file in memory: thousands of them would keep a disk busy for a while.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes)
      : descriptor_(::memfd_create("broken.safetensors", MFD_CLOEXEC)) {
    if (descriptor_ < 0 || ::write(descriptor_, bytes.data(), bytes.size()) !=
                               static_cast<ssize_t>(bytes.size())) {
      throw std::runtime_error("a file in memory could not be made");
    }
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::filesystem::path path() const {
    return "/proc/self/fd/" + std::to_string(descriptor_);
  }

 private:
  int descriptor_;
};

// The message for a file of these bytes; empty when it was accepted.
std::string refusal(const std::string& bytes) {
  const MemoryFile broken(bytes);
  try {
    const SafetensorsFile file(broken.path());
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), HasSubstr(broken.path().string()));
    return error.what();
  }
}

struct Broken {
  const char* name;
  std::string bytes;
  std::string message;  // a part of what is said
};

void PrintTo(const Broken& broken, std::ostream* out) {
  *out << broken.name;
}

class BrokenSafetensors : public testing::TestWithParam<Broken> {};

TEST_P(BrokenSafetensors, C6_is_refused_with_file_and_cause) {
  EXPECT_THAT(refusal(GetParam().bytes), HasSubstr(GetParam().message));
}

const std::string kA = tensor("a", "[2]", "[0,8]");
const std::string kHuge = "18446744073709551615";

INSTANTIATE_TEST_SUITE_P(
    files, BrokenSafetensors,
    testing::Values(
        Broken{"empty_file", "", "has 0 bytes"},
        Broken{"seven_bytes", "1234567", "has 7 bytes"},
        Broken{"length_alone", length_bytes(2), "claims 2 bytes"},
        Broken{"length_past_the_end", length_bytes(100) + "{}",
               "claims 100 bytes"},
        Broken{"largest_length", length_bytes(UINT64_MAX) + "{}",
               "claims 18446744073709551615 bytes"},
        Broken{"length_that_wraps", length_bytes(UINT64_MAX - 7) + "{}",
               "claims"},
        Broken{"length_zero", length_bytes(0) + "xx", "begin with '{'"},
        Broken{"header_of_spaces", with_header("  {}", 0), "begin with '{'"},
        Broken{"header_is_an_array", with_header("[]", 0), "begin with '{'"},
        Broken{"not_json", with_header("{\"a\":", 0), "not JSON"},
        Broken{"two_documents", with_header("{}{}", 0), "not JSON"},
        Broken{"not_utf8", with_header("{\"\xFF\":{}}", 0), "not JSON"},
        Broken{"a_byte_after_the_header", with_header("{} x", 0), "not JSON"},
        Broken{"truncated_data", with_header("{" + kA + "}", 7),
               "tensor \"a\" has bytes 0 to 8 of the data, but the file "
               "holds 7"},
        Broken{"data_left_over", with_header("{" + kA + "}", 9),
               "has 9 bytes, but the tensors end at 8"},
        Broken{"data_without_tensors", with_header("{}", 1), "has 1 bytes"},
        Broken{"offsets_past_the_end",
               with_header("{" + tensor("a", "[2]", "[8,16]") + "}", 8),
               "tensor \"a\" has bytes 8 to 16"},
        Broken{
            "offset_of_64_bits",
            with_header("{" + tensor("a", "[2]", "[0," + kHuge + "]") + "}", 8),
            "tensor \"a\""},
        Broken{"offset_past_64_bits",
               with_header("{" + tensor("a", "[2]", "[0," + kHuge + "0]") + "}",
                           8),
               "tensor \"a\""},
        Broken{"offsets_reversed",
               with_header("{" + tensor("a", "[2]", "[8,0]") + "}", 8),
               "not [begin, end]"},
        Broken{"one_offset",
               with_header("{" + tensor("a", "[2]", "[8]") + "}", 8),
               "not [begin, end]"},
        Broken{"three_offsets",
               with_header("{" + tensor("a", "[2]", "[0,8,8]") + "}", 8),
               "not [begin, end]"},
        Broken{"negative_offset",
               with_header("{" + tensor("a", "[2]", "[-8,0]") + "}", 8),
               "tensor \"a\" has the number -8 in its data_offsets"},
        Broken{"offset_with_fraction",
               with_header("{" + tensor("a", "[2]", "[0,8.0]") + "}", 8),
               "the number 8.0"},
        Broken{"overlap",
               with_header("{" + kA + "," + tensor("b", "[2]", "[4,12]") + "}",
                           12),
               "tensor \"b\" has bytes 4 to 12 of the data, but the tensors "
               "before it end at 8 (overlap)"},
        Broken{
            "same_bytes_twice",
            with_header("{" + kA + "," + tensor("b", "[2]", "[0,8]") + "}", 8),
            "(overlap)"},
        Broken{"hole",
               with_header("{" + kA + "," + tensor("b", "[1]", "[12,16]") + "}",
                           16),
               "tensor \"b\" has bytes 12 to 16 of the data, but the tensors "
               "before it end at 8 (hole)"},
        Broken{"hole_at_the_start",
               with_header("{" + tensor("a", "[1]", "[4,8]") + "}", 8),
               "(hole)"},
        Broken{"shape_too_small",
               with_header("{" + tensor("a", "[1]", "[0,8]") + "}", 8),
               "tensor \"a\" has bytes 0 to 8 of the data (8), but its shape "
               "and dtype F32 need 4"},
        Broken{
            "shape_product_wraps_to_fit",
            with_header(
                "{" + tensor("a", "[4611686018427387904,4]", "[0,0]") + "}", 0),
            "tensor a"},
        Broken{"bytes_wrap_to_fit",
               with_header("{" + tensor("a", "[4611686018427387904]", "[0,0]") +
                               "}",
                           0),
               "tensor a"},
        Broken{
            "size_past_63_bits",
            with_header("{" + tensor("a", "[" + kHuge + "]", "[0,8]") + "}", 8),
            "tensor \"a\" has a size of"},
        Broken{"negative_size",
               with_header("{" + tensor("a", "[-2]", "[0,8]") + "}", 8),
               "tensor \"a\" has the number -2 in its shape"},
        Broken{"shape_is_text",
               with_header("{" + tensor("a", "\"2\"", "[0,8]") + "}", 8),
               "tensor \"a\" has a string as its shape"},
        Broken{"shape_in_shape",
               with_header("{" + tensor("a", "[[2]]", "[0,8]") + "}", 8),
               "tensor \"a\" has an array in its shape"},
        Broken{
            "unknown_dtype",
            with_header("{" + tensor("a", "[2]", "[0,8]", "\"F8_E4M3\"") + "}",
                        8),
            "tensor \"a\": dtype \"F8_E4M3\" is not known"},
        Broken{"dtype_is_a_number",
               with_header("{" + tensor("a", "[2]", "[0,8]", "32") + "}", 8),
               "tensor \"a\" has a number as its dtype"},
        Broken{"dtype_is_null",
               with_header("{" + tensor("a", "[2]", "[0,8]", "null") + "}", 8),
               "tensor \"a\" has null as its dtype"},
        Broken{"no_shape",
               with_header(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8),
               "tensor \"a\" has no shape"},
        Broken{"no_offsets",
               with_header(R"({"a":{"dtype":"F32","shape":[2]}})", 8),
               "tensor \"a\" has no data_offsets"},
        Broken{"unknown_key",
               with_header(R"({"a":{"dtype":"F32","shape":[2],)"
                           R"("data_offsets":[0,8],"stride":1}})",
                           8),
               "tensor \"a\" has an unknown key \"stride\""},
        Broken{"repeated_key",
               with_header(R"({"a":{"dtype":"F32","shape":[2],"shape":[2],)"
                           R"("data_offsets":[0,8]}})",
                           8),
               "tensor \"a\" has the key \"shape\" twice"},
        Broken{"repeated_name", with_header("{" + kA + "," + kA + "}", 8),
               "the name \"a\" occurs twice"},
        Broken{"tensor_is_a_number", with_header(R"({"a":1})", 0),
               "\"a\" is a number, expected an object"},
        Broken{"metadata_is_an_array", with_header(R"({"__metadata__":[]})", 0),
               "\"__metadata__\" is an array"},
        Broken{"metadata_value_is_a_number",
               with_header(R"({"__metadata__":{"step":1}})", 0),
               "__metadata__ \"step\" is a number, expected a string"},
        Broken{"metadata_key_twice",
               with_header(R"({"__metadata__":{"a":"1","a":"2"}})", 0),
               "__metadata__ has the key \"a\" twice"},
        Broken{"deep_nesting",
               with_header("{\"a\":" + std::string(1000000, '['), 0),
               "\"a\" is an array"}),
    [](const auto& description) {
      return std::string(description.param.name);
    });

std::string sound_file() {
  const test::TempDir dir;
  test::Tensors tensors;
  tensors.add<float>("first", DType::kF32, {2, 3}, {1, 2, 3, 4, 5, 6});
  tensors.add<std::uint16_t>("second", DType::kBF16, {3}, {1, 2, 3});
  write_safetensors(dir / "sound.safetensors", tensors.views(),
                    {{"note", "n"}});
  return read_file(dir / "sound.safetensors");
}

TEST(Safetensors, C6_every_shorter_file_is_refused) {
  const std::string sound = sound_file();
  ASSERT_EQ(refusal(sound), "");
  for (std::size_t size = 0; size < sound.size(); ++size) {
    EXPECT_NE(refusal(sound.substr(0, size)), "") << size;
  }
  EXPECT_THAT(refusal(sound.substr(0, sound.size() - 1)),
              HasSubstr("tensor \"second\""));
}

TEST(Safetensors, C6_a_giant_header_length_allocates_nothing) {
  // 99 MB are within the format's limit, but not within the file.
  const std::string bytes = length_bytes(99'000'000) + "{}";
  rusage before{};
  rusage after{};
  ::getrusage(RUSAGE_SELF, &before);
  EXPECT_THAT(refusal(bytes), HasSubstr("claims 99000000 bytes"));
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 10'000);  // KiB
}

// Either refused, or every view lies within the file and can be read.
TEST(Safetensors, C6_random_damage_never_leads_outside_the_file) {
  const std::string sound = sound_file();
  std::mt19937_64 random(20240521);
  int refused = 0;
  std::uint64_t sum = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = sound;
    const auto changes = 1 + random() % 4;
    for (std::uint64_t change = 0; change < changes; ++change) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = "0123456789[]{},:\"-e."[random() % 20];
          break;
        case 2:
          bytes.erase(at, 1 + random() % 3);
          break;
        default:
          bytes.insert(at, 1 + random() % 3, bytes[random() % bytes.size()]);
          break;
      }
    }
    const MemoryFile damaged(bytes);
    try {
      const SafetensorsFile file(damaged.path());
      for (const TensorView& view : file.tensors()) {
        ASSERT_LE(view.bytes(), bytes.size());
        const auto* data = static_cast<const unsigned char*>(view.data);
        for (std::size_t i = 0; i < view.bytes(); ++i) {
          sum += data[i];
        }
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      ++refused;
    }
  }
  EXPECT_GT(refused, 2000);
  EXPECT_GT(sum, 0U);
}

}  // namespace
}  // namespace osdn::checkpoint
