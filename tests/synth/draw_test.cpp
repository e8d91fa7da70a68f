#include "osdn/synth/draw.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "osdn/core/hash.h"
#include "support/message_of.h"

namespace osdn::synth {
namespace {

TEST(DocumentStream, is_given_by_seed_task_and_index) {
  EXPECT_EQ(
      document_stream(7, "mqar", 3).state(),
      Xoshiro256(derive_seed(derive_seed(7, xxh3_64("mqar")), 3)).state());
  std::set<Xoshiro256::State> states;
  for (const std::uint64_t seed : {0, 1}) {
    for (const char* task : {"mqar", "records"}) {
      for (const std::uint64_t index : {0, 1}) {
        states.insert(document_stream(seed, task, index).state());
      }
    }
  }
  EXPECT_EQ(states.size(), 8U);
}

TEST(DrawDistinct, gives_every_number_when_all_are_asked_for) {
  Xoshiro256 random(1);
  std::vector<std::int64_t> drawn = draw_distinct(random, 10, 5, 15);
  std::sort(drawn.begin(), drawn.end());
  std::vector<std::int64_t> all(10);
  std::iota(all.begin(), all.end(), 5);
  EXPECT_EQ(drawn, all);
  test::message_of([&] { draw_distinct(random, 11, 5, 15); },
                   ExitCode::kFailure);
}

TEST(DrawWeighted, follows_the_weights_without_replacement) {
  Xoshiro256 random(2);
  int first_is_heavy = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const auto drawn = draw_weighted(random, 2, {1, 0, 3});
    EXPECT_NE(drawn[0], drawn[1]);
    EXPECT_NE(drawn[0], 1U);
    EXPECT_NE(drawn[1], 1U);
    first_is_heavy += drawn[0] == 2;
  }
  // Five standard deviations of a share of 3/4.
  EXPECT_NEAR(first_is_heavy, 0.75 * kDraws,
              5 * std::sqrt(0.75 * 0.25 * kDraws));
  test::message_of(
      [&] {
        draw_weighted(random, 3, {1, 0, 3});
      },
      ExitCode::kFailure);
}

TEST(Shuffle, gives_every_order_alike) {
  Xoshiro256 random(3);
  std::map<std::vector<int>, int> counts;
  constexpr int kDraws = 12000;
  for (int i = 0; i < kDraws; ++i) {
    std::vector<int> items = {1, 2, 3};
    shuffle(random, items);
    ++counts[items];
  }
  ASSERT_EQ(counts.size(), 6U);
  for (const auto& [order, count] : counts) {
    EXPECT_NEAR(count, kDraws / 6, 5 * std::sqrt(kDraws / 6.0));
  }
}

TEST(PowerWeight, is_the_power) {
  for (const std::uint64_t n : {1, 2, 3, 7, 28, 255, 256, 4095, 1000003}) {
    for (const double exponent : {0.0, -0.5, -0.99, -1.0, -2.0}) {
      const double expected =
          0x1p32 * std::pow(static_cast<double>(n), exponent);
      // floor() and the last bits of either function.
      EXPECT_NEAR(static_cast<double>(power_weight(n, exponent)), expected,
                  1 + 1e-12 * expected)
          << n << " " << exponent;
    }
  }
  EXPECT_EQ(power_weight(1, -0.99), std::uint64_t{1} << 32);
  EXPECT_EQ(power_weight(2, -1.0), std::uint64_t{1} << 31);
}

}  // namespace
}  // namespace osdn::synth
