#include "osdn/report/format.h"

#include <gtest/gtest.h>

#include <limits>

namespace osdn::report {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(FormatSi, three_digits_and_a_prefix) {
  EXPECT_EQ(format_si(0), "0");
  EXPECT_EQ(format_si(7), "7");
  EXPECT_EQ(format_si(0.25), "0.25");
  EXPECT_EQ(format_si(12.34), "12.3");
  EXPECT_EQ(format_si(999), "999");
  EXPECT_EQ(format_si(1234), "1.23k");
  EXPECT_EQ(format_si(45600000), "45.6M");
  EXPECT_EQ(format_si(789e9), "789G");
  EXPECT_EQ(format_si(-2500), "-2.50k");
}

TEST(FormatSi, rounding_never_gives_a_fourth_digit) {
  EXPECT_EQ(format_si(999.6), "1.00k");
  EXPECT_EQ(format_si(999500), "1.00M");
  EXPECT_EQ(format_si(9996), "10.0k");
  EXPECT_EQ(format_si(99960), "100k");
}

TEST(FormatSi, non_finite) {
  EXPECT_EQ(format_si(-kNan), "nan");
  EXPECT_EQ(format_si(kInf), "inf");
  EXPECT_EQ(format_si(-kInf), "-inf");
  EXPECT_EQ(format_fixed(-kNan, 3), "nan");
  EXPECT_EQ(format_scientific(kInf, 3), "inf");
}

TEST(FormatDuration, from_seconds_to_days) {
  EXPECT_EQ(format_duration(0), "0:00");
  EXPECT_EQ(format_duration(6.6), "0:07");
  EXPECT_EQ(format_duration(59.6), "1:00");
  EXPECT_EQ(format_duration(754), "12:34");
  EXPECT_EQ(format_duration(3723), "1:02:03");
  EXPECT_EQ(format_duration(3 * 86400 + 4 * 3600 + 5 * 60 + 6), "3d 04:05:06");
}

TEST(FormatDuration, unknown) {
  EXPECT_EQ(format_duration(-1), "?");
  EXPECT_EQ(format_duration(kNan), "?");
  EXPECT_EQ(format_duration(kInf), "?");
}

}  // namespace
}  // namespace osdn::report
