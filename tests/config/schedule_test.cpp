#include "osdn/config/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "osdn/core/error.h"

namespace osdn::config {
namespace {

ScheduleConfig published() {
  return {};
}  // the 340M recipe is the default

TEST(Schedule, cosine_is_the_published_formula) {
  const double n = 20480;
  const double w = 1024;
  const double m = 0.1;
  for (const std::int64_t step : {1024, 1025, 5000, 10000, 15000, 20478}) {
    const double expected =
        m + (1 - m) *
                (1 + std::cos(std::numbers::pi *
                              (static_cast<double>(step) - w) / (n - w))) /
                2;
    EXPECT_NEAR(learning_rate(published(), 1e-3, step), 1e-3 * expected, 1e-18)
        << step;
  }
}

TEST(Schedule, R3_above_zero_at_the_first_update) {
  for (const char* kind : {"cosine", "linear", "wsd", "constant"}) {
    ScheduleConfig schedule = published();
    schedule.kind = kind;
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 1e-3, 0), 1e-3 / 1024) << kind;
    EXPECT_DOUBLE_EQ(learning_rate(schedule, 1e-3, 1023), 1e-3) << kind;
  }
}

TEST(Schedule, R3_exactly_the_floor_at_the_last_update_and_after) {
  for (const char* kind : {"cosine", "linear", "wsd"}) {
    ScheduleConfig schedule = published();
    schedule.kind = kind;
    schedule.decay_steps = 2000;
    const double floor = 1e-3 * 0.1;
    EXPECT_GT(learning_rate(schedule, 1e-3, 20478), floor) << kind;
    EXPECT_EQ(learning_rate(schedule, 1e-3, 20479), floor) << kind;
    EXPECT_EQ(learning_rate(schedule, 1e-3, 20480), floor) << kind;
    EXPECT_EQ(learning_rate(schedule, 1e-3, std::int64_t{1} << 60), floor)
        << kind;
  }
}

TEST(Schedule, R3_never_rises_after_the_warmup_nor_leaves_the_band) {
  for (const char* kind : {"cosine", "linear", "wsd"}) {
    ScheduleConfig schedule{.kind = kind,
                            .total_steps = 97,
                            .warmup_steps = 10,
                            .decay_steps = 31,
                            .min_lr_ratio = 0.05};
    double last = learning_rate(schedule, 2.0, 9);
    EXPECT_EQ(last, 2.0);
    for (std::int64_t step = 10; step < 120; ++step) {
      const double rate = learning_rate(schedule, 2.0, step);
      EXPECT_LE(rate, last) << kind << " " << step;
      EXPECT_GE(rate, 2.0 * 0.05) << kind << " " << step;
      last = rate;
    }
  }
}

TEST(Schedule, linear_and_wsd_by_hand) {
  ScheduleConfig linear{.kind = "linear",
                        .total_steps = 12,
                        .warmup_steps = 2,
                        .min_lr_ratio = 0.0};
  EXPECT_DOUBLE_EQ(learning_rate(linear, 1.0, 2), 0.9);
  EXPECT_DOUBLE_EQ(learning_rate(linear, 1.0, 6), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate(linear, 1.0, 11), 0.0);
  ScheduleConfig wsd{.kind = "wsd",
                     .total_steps = 12,
                     .warmup_steps = 2,
                     .decay_steps = 4,
                     .min_lr_ratio = 0.2};
  EXPECT_DOUBLE_EQ(learning_rate(wsd, 1.0, 2), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(wsd, 1.0, 7), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(wsd, 1.0, 8), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(wsd, 1.0, 9), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate(wsd, 1.0, 11), 0.2);
}

TEST(Schedule, R2_a_decay_of_zero_length_is_legal) {
  ScheduleConfig wsd{.kind = "wsd", .total_steps = 10, .warmup_steps = 2};
  EXPECT_EQ(learning_rate(wsd, 1.0, 9), 1.0);
  EXPECT_EQ(learning_rate(wsd, 1.0, 10), 0.1);
  for (const char* kind : {"cosine", "linear"}) {
    ScheduleConfig only_warmup{
        .kind = kind, .total_steps = 10, .warmup_steps = 10};
    EXPECT_EQ(learning_rate(only_warmup, 1.0, 9), 1.0) << kind;
    EXPECT_EQ(learning_rate(only_warmup, 1.0, 10), 0.1) << kind;
  }
}

TEST(Schedule, R2_where_training_stops_does_not_bend_the_schedule) {
  // learning_rate() does not see training.steps: 50 of 1,000 steps are the
  // first 50 of the same curve, and training past the end stays on the floor.
  ScheduleConfig schedule{.total_steps = 1000, .warmup_steps = 10};
  EXPECT_GT(learning_rate(schedule, 1.0, 49), 0.98);
  EXPECT_EQ(learning_rate(schedule, 1.0, 5000), 0.1);
}

TEST(Schedule, without_warmup_starts_at_the_peak) {
  ScheduleConfig schedule{.total_steps = 100, .warmup_steps = 0};
  EXPECT_EQ(learning_rate(schedule, 3e-4, 0), 3e-4);
}

TEST(Schedule, constant_never_ends) {
  ScheduleConfig schedule{
      .kind = "constant", .total_steps = 10, .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(learning_rate(schedule, 1.0, 1), 0.5);
  EXPECT_EQ(learning_rate(schedule, 1.0, 1'000'000), 1.0);
}

TEST(Schedule, refuses_what_it_does_not_know) {
  EXPECT_THROW(learning_rate(published(), 1.0, -1), Error);
  ScheduleConfig schedule = published();
  schedule.kind = "cosin";
  EXPECT_THROW(learning_rate(schedule, 1.0, 2000), Error);
}

}  // namespace
}  // namespace osdn::config
