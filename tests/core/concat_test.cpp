#include "osdn/core/concat.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

namespace osdn {
namespace {

TEST(Concat, joins_text_and_numbers) {
  const std::string name = "k";
  EXPECT_EQ(concat(), "");
  EXPECT_EQ(concat("got ", 3, ", expected ", name, '!'), "got 3, expected k!");
  EXPECT_EQ(concat(true, " ", false), "true false");
  EXPECT_EQ(concat(std::numeric_limits<std::int64_t>::min()),
            "-9223372036854775808");
  EXPECT_EQ(concat(std::numeric_limits<std::uint64_t>::max()),
            "18446744073709551615");
}

TEST(Concat, numbers_read_back_to_the_same_value) {
  EXPECT_EQ(concat(0.1), "0.1");
  EXPECT_EQ(concat(0.1F), "0.1");
  EXPECT_EQ(concat(374583488.0), "374583488");
  EXPECT_EQ(std::stod(concat(2.0 / 3.0)), 2.0 / 3.0);
  EXPECT_EQ(concat(std::numeric_limits<double>::infinity()), "inf");
}

TEST(Concat, writes_other_types_as_streams_do) {
  EXPECT_EQ(concat(std::filesystem::path("/a b")), "\"/a b\"");
}

}  // namespace
}  // namespace osdn
