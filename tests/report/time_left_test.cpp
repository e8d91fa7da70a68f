#include "osdn/report/time_left.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace osdn::report {
namespace {

TEST(Pace, of_few_by_hand) {
  Pace pace(64);
  EXPECT_FALSE(pace.usual().has_value());
  pace.add(9);
  EXPECT_DOUBLE_EQ(*pace.usual(), 9);
  pace.add(1);
  EXPECT_DOUBLE_EQ(*pace.usual(), 5);
  pace.add(2);
  EXPECT_DOUBLE_EQ(*pace.usual(), 2);  // a slow first step counts no more
  pace.add(4);
  EXPECT_DOUBLE_EQ(*pace.usual(), 3);  // of 1, 2, 4, 9 the middle two
}

TEST(Pace, a_stall_is_no_pace) {
  Pace pace(64);
  for (int i = 0; i < 40; ++i) pace.add(1);
  pace.add(600);
  EXPECT_DOUBLE_EQ(*pace.usual(), 1);
}

TEST(Pace, follows_a_lasting_change) {
  Pace pace(64);
  for (int i = 0; i < 1000; ++i) pace.add(1);
  for (int i = 0; i < 64; ++i) pace.add(3);
  EXPECT_DOUBLE_EQ(*pace.usual(), 3);
}

// Another's work that comes and goes must not throw the estimate about, as the
// last step's time, or the median, would.
TEST(Pace, steps_of_two_speeds_are_in_between) {
  Pace pace(64);
  double least = 1e9, most = 0;
  for (int i = 0; i < 640; ++i) {
    pace.add(i % 10 < 5 ? 1 : 2);
    if (i < 64) continue;
    least = std::min(least, *pace.usual());
    most = std::max(most, *pace.usual());
  }
  EXPECT_GT(least, 1.3);
  EXPECT_LT(most, 1.7);
}

// One as long as all: the sum of what is ahead, each part once.
TEST(TimeLeft, counts_each_part_as_often_as_it_is_ahead) {
  TimeLeft left;
  EXPECT_FALSE(left.seconds({10, 1, 1}).has_value());
  left.validation(60);
  EXPECT_FALSE(left.seconds({10, 1, 1}).has_value());
  for (int i = 0; i < 10; ++i) left.step(2);
  EXPECT_DOUBLE_EQ(*left.seconds({100, 0, 0}), 200);
  EXPECT_DOUBLE_EQ(*left.seconds({100, 3, 2}), 200 + 3 * 60);
  left.save(5);
  EXPECT_DOUBLE_EQ(*left.seconds({100, 3, 2}), 200 + 3 * 60 + 2 * 5);
  EXPECT_DOUBLE_EQ(*left.seconds({0, 0, 0}), 0);
}

}  // namespace
}  // namespace osdn::report
