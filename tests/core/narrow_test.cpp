#include "osdn/core/narrow.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace osdn {
namespace {

TEST(Narrow, keeps_what_fits) {
  EXPECT_EQ(narrow<std::uint8_t>(255), 255);
  EXPECT_EQ(narrow<std::int32_t>(std::int64_t{-7}), -7);
  EXPECT_EQ(narrow<std::int64_t>(std::uint64_t{5}), 5);
}

TEST(Narrow, D6_refuses_what_does_not_fit) {
  EXPECT_THROW(narrow<std::uint16_t>(65536), Error);
  EXPECT_THROW(narrow<std::uint32_t>(-1), Error);
  EXPECT_THROW(narrow<std::int64_t>(std::numeric_limits<std::uint64_t>::max()),
               Error);
  try {
    narrow<std::uint16_t>(70000, "token id");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "token id 70000 does not fit an unsigned integer of 16 bits");
  }
}

TEST(Narrow, div_exact) {
  EXPECT_EQ(div_exact(12, 4), 3);
  EXPECT_EQ(div_exact<std::int64_t>(0, 4), 0);
  EXPECT_THROW(div_exact(13, 4), Error);
  EXPECT_THROW(div_exact(13, 0), Error);
}

TEST(Narrow, div_up) {
  EXPECT_EQ(div_up(0, 4), 0);
  EXPECT_EQ(div_up(1, 4), 1);
  EXPECT_EQ(div_up(4, 4), 1);
  EXPECT_EQ(div_up(std::numeric_limits<std::int64_t>::max(), std::int64_t{1}),
            std::numeric_limits<std::int64_t>::max());
}

}  // namespace
}  // namespace osdn
