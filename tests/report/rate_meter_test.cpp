#include "osdn/report/rate_meter.h"

#include <gtest/gtest.h>

namespace osdn::report {
namespace {

TEST(RateMeter, needs_two_moments) {
  RateMeter meter;
  EXPECT_FALSE(meter.rate().has_value());
  meter.sample(1.0, 10);
  EXPECT_FALSE(meter.rate().has_value());
  meter.sample(1.0, 20);
  EXPECT_FALSE(meter.rate().has_value());
  meter.sample(3.0, 50);
  EXPECT_DOUBLE_EQ(meter.rate().value(), 20.0);
}

TEST(RateMeter, forgets_a_slow_beginning) {
  RateMeter meter(10.0);
  for (int second = 0; second <= 100; ++second) {
    meter.sample(second, second < 50 ? second : 50 + 1000 * (second - 50));
  }
  EXPECT_DOUBLE_EQ(meter.rate().value(), 1000.0);
}

TEST(RateMeter, many_samples_close_together_count_as_few) {
  RateMeter meter(10.0);
  for (int i = 0; i <= 1000000; ++i) {
    meter.sample(i * 1e-4, 3LL * i);
  }
  EXPECT_NEAR(meter.rate().value(), 30000.0, 1.0);
}

}  // namespace
}  // namespace osdn::report
