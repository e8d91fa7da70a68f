#include "osdn/core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "osdn/core/error.h"

namespace osdn {
namespace {

// Published outputs of the reference implementations.
TEST(Random, splitmix64_reference_values) {
  SplitMix64 random(1234567);
  for (const std::uint64_t expected :
       {6457827717110365317ULL, 3203168211198807973ULL, 9817491932198370423ULL,
        4593380528125082431ULL, 16408922859458223821ULL}) {
    EXPECT_EQ(random.next(), expected);
  }
}

TEST(Random, xoshiro256_reference_values) {
  Xoshiro256 random(Xoshiro256::State{1, 2, 3, 4});
  for (const std::uint64_t expected :
       {11520ULL, 0ULL, 1509978240ULL, 1215971899390074240ULL,
        1216172134540287360ULL, 607988272756665600ULL, 16172922978634559625ULL,
        8476171486693032832ULL}) {
    EXPECT_EQ(random.next(), expected);
  }
}

TEST(Random, a_seed_fills_the_state_through_splitmix64) {
  SplitMix64 mixer(42);
  const Xoshiro256::State expected = {mixer.next(), mixer.next(), mixer.next(),
                                      mixer.next()};
  EXPECT_EQ(Xoshiro256(42).state(), expected);
}

TEST(Random, R1_the_state_continues_the_sequence_exactly) {
  Xoshiro256 random(7);
  random.normal();
  random.below(1000);
  Xoshiro256 restored(random.state());
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(restored.normal(), random.normal());
    EXPECT_EQ(restored.below(17), random.below(17));
  }
}

TEST(Random, refuses_what_would_not_work) {
  EXPECT_THROW(Xoshiro256(Xoshiro256::State{}), Error);
  EXPECT_THROW(Xoshiro256(1).below(0), Error);
}

TEST(Random, below_is_uniform_and_rejects_the_biased_words) {
  Xoshiro256 random(3);
  std::vector<int> counts(6);
  for (int i = 0; i < 60000; ++i) {
    ++counts[random.below(6)];
  }
  for (const int count : counts) {
    EXPECT_NEAR(count, 10000, 400);  // four standard deviations
  }
  // With a bound of 3/4 of the range, a plain remainder would hit the lower
  // third twice as often.
  const std::uint64_t bound = 3ULL << 62;
  int lower_third = 0;
  for (int i = 0; i < 30000; ++i) {
    lower_third += random.below(bound) < (1ULL << 62) ? 1 : 0;
  }
  EXPECT_NEAR(lower_third, 10000, 400);
  EXPECT_EQ(random.below(1), 0U);
}

TEST(Random, uniform_is_the_upper_53_bits) {
  Xoshiro256 random(11);
  Xoshiro256 words(11);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double value = random.uniform();
    EXPECT_EQ(value, std::ldexp(static_cast<double>(words.next() >> 11), -53));
    EXPECT_GE(value, 0.0);
    EXPECT_LT(value, 1.0);
    sum += value;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.012);
}

TEST(Random, normal_has_the_moments_of_the_normal_distribution) {
  Xoshiro256 random(5);
  constexpr int kPairs = 50000;
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  double product = 0;
  for (int i = 0; i < kPairs; ++i) {
    const auto [a, b] = random.normal_pair();
    for (const double x : {a, b}) {
      ASSERT_TRUE(std::isfinite(x));
      sum += x;
      squares += x * x;
      fourth += x * x * x * x;
    }
    product += a * b;
  }
  const double n = 2.0 * kPairs;
  EXPECT_NEAR(sum / n, 0.0, 0.013);
  EXPECT_NEAR(squares / n, 1.0, 0.018);
  EXPECT_NEAR(fourth / n, 3.0, 0.13);
  EXPECT_NEAR(product / kPairs, 0.0, 0.018);
}

TEST(Random, D4_derived_seeds_differ) {
  std::set<std::uint64_t> seeds;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    for (std::uint64_t stream = 0; stream < 50; ++stream) {
      seeds.insert(derive_seed(seed, stream));
    }
  }
  EXPECT_EQ(seeds.size(), 2500U);
  EXPECT_EQ(derive_seed(42, 1), derive_seed(42, 1));
}

}  // namespace
}  // namespace osdn
