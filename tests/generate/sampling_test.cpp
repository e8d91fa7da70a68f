// Each step of the choice against its definition, and the order of the steps.

#include "osdn/generate/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "osdn/core/error.h"
#include "osdn/core/random.h"

namespace osdn::generate {
namespace {

using Ids = std::vector<std::int32_t>;
using Logits = std::vector<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Ids ids_of(const std::vector<Candidate>& all) {
  Ids ids;
  for (const Candidate& c : all) ids.push_back(c.id);
  return ids;
}

double sum_of(const std::vector<Candidate>& all) {
  double sum = 0;
  for (const Candidate& c : all) sum += c.probability;
  return sum;
}

/// Logits of these probabilities.
Logits logs(const Logits& probabilities) {
  Logits logits;
  for (const double p : probabilities) logits.push_back(std::log(p));
  return logits;
}

Logits random_logits(Xoshiro256& random, std::size_t count) {
  Logits logits(count);
  for (double& logit : logits) logit = 3 * random.normal();
  return logits;
}

TEST(Sampling, repetition_penalty_makes_seen_ids_less_likely) {
  Logits logits = {2, -2, 0, 4, -4};
  penalise_repetition(logits, Ids{0, 1, 2}, 2);
  EXPECT_EQ(logits, (Logits{1, -4, 0, 4, -4}));
  penalise_repetition(logits, Ids{0, 1, 2, 3, 4}, 1);
  EXPECT_EQ(logits, (Logits{1, -4, 0, 4, -4}));
  EXPECT_THROW(penalise_repetition(logits, Ids{5}, 2), Error);
}

TEST(Sampling, softmax_leaves_out_what_is_impossible) {
  const auto all = candidates(Logits{0, -kInfinity, std::log(3.0), -2000});
  ASSERT_EQ(ids_of(all), (Ids{0, 2}));
  EXPECT_NEAR(all[0].probability, 0.25, 1e-15);
  EXPECT_NEAR(all[1].probability, 0.75, 1e-15);
}

TEST(Sampling, top_k_keeps_the_most_probable_and_of_equal_ones_the_first) {
  const auto all = candidates(logs({0.1, 0.3, 0.2, 0.3, 0.1}));
  EXPECT_EQ(ids_of(keep_top_k(all, 1)), (Ids{1}));
  EXPECT_EQ(ids_of(keep_top_k(all, 2)), (Ids{1, 3}));
  EXPECT_EQ(ids_of(keep_top_k(all, 4)), (Ids{0, 1, 2, 3}));
  EXPECT_NEAR(sum_of(keep_top_k(all, 3)), 1, 1e-15);
  for (const std::int64_t all_of_them : {0, 5, 100}) {
    EXPECT_EQ(keep_top_k(all, all_of_them), all);
  }
}

TEST(Sampling, top_p_keeps_up_to_the_one_that_reaches_p) {
  const auto all = candidates(logs({0.1, 0.4, 0.2, 0.3}));
  EXPECT_EQ(ids_of(keep_top_p(all, 1e-9)), (Ids{1}));
  EXPECT_EQ(ids_of(keep_top_p(all, 0.39)), (Ids{1}));
  EXPECT_EQ(ids_of(keep_top_p(all, 0.41)), (Ids{1, 3}));
  EXPECT_EQ(ids_of(keep_top_p(all, 0.71)), (Ids{1, 2, 3}));
  EXPECT_EQ(ids_of(keep_top_p(all, 0.91)), (Ids{0, 1, 2, 3}));
  EXPECT_NEAR(sum_of(keep_top_p(all, 0.5)), 1, 1e-15);
  EXPECT_EQ(keep_top_p(all, 1), all);
}

// Against the definition, for many sizes and limits.
TEST(Sampling, filters_keep_the_smallest_set_of_the_largest) {
  Xoshiro256 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    const auto all = candidates(random_logits(random, 1 + random.below(60)));
    const auto k = static_cast<std::int64_t>(1 + random.below(60));
    const double p = 1 - random.uniform();
    const auto top_k = keep_top_k(all, k);
    const auto top_p = keep_top_p(all, p);
    for (const auto* kept : {&top_k, &top_p}) {
      const Ids ids = ids_of(*kept);
      const std::set<std::int32_t> inside(ids.begin(), ids.end());
      double least = 1, most_outside = 0, mass = 0;
      for (const Candidate& c : all) {
        if (inside.contains(c.id)) {
          least = std::min(least, c.probability);
          mass += c.probability;
        } else {
          most_outside = std::max(most_outside, c.probability);
        }
      }
      EXPECT_GE(least, most_outside);
      if (kept == &top_p) {
        EXPECT_GE(mass, p - 1e-12);
        EXPECT_LT(mass - least, p);
      } else {
        EXPECT_EQ(ids.size(), std::min<std::size_t>(
                                  all.size(), static_cast<std::size_t>(k)));
      }
    }
  }
}

TEST(Sampling, draw_walks_by_id) {
  const std::vector<Candidate> all = {{2, 0.25}, {5, 0.5}, {9, 0.25}};
  EXPECT_EQ(draw(all, 0), 2);
  EXPECT_EQ(draw(all, 0.2499), 2);
  EXPECT_EQ(draw(all, 0.25), 5);
  EXPECT_EQ(draw(all, 0.7499), 5);
  EXPECT_EQ(draw(all, 0.75), 9);
  EXPECT_EQ(draw(all, std::nextafter(1.0, 0.0)), 9);
  EXPECT_EQ(draw(std::vector<Candidate>{{4, 0.9}}, 0.95), 4);
}

TEST(Sampling, draws_follow_the_probabilities) {
  const Logits logits = logs({0.5, 0.2, 0.05, 0.25});
  SamplingOptions options;
  options.temperature = 1;
  std::vector<int> counts(4);
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    ++counts[static_cast<std::size_t>(
        next_token(logits, {}, options, 7, static_cast<std::uint64_t>(i)))];
  }
  // Five standard deviations of the binomial.
  for (std::size_t id = 0; id < 4; ++id) {
    const double p = std::exp(logits[id]);
    EXPECT_NEAR(counts[id], kDraws * p, 5 * std::sqrt(kDraws * p * (1 - p)));
  }
}

TEST(Sampling, a_draw_depends_on_seed_prompt_and_position_alone) {
  std::set<double> different;
  for (std::uint64_t seed : {0, 1}) {
    for (std::uint64_t index : {0, 1}) {
      for (std::uint64_t position : {0, 1}) {
        const double u = uniform_at(seed, index, position);
        EXPECT_GE(u, 0);
        EXPECT_LT(u, 1);
        EXPECT_EQ(u, uniform_at(seed, index, position));
        different.insert(u);
      }
    }
  }
  EXPECT_EQ(different.size(), 8U);
}

TEST(Sampling, greedy_takes_the_first_largest_after_the_penalty) {
  const SamplingOptions greedy;
  EXPECT_EQ(next_token({1, 3, 3, 2}, {}, greedy, 0, 0), 1);
  SamplingOptions penal = greedy;
  penal.repetition_penalty = 2;
  EXPECT_EQ(next_token({1, 3, 3, 2}, Ids{1}, penal, 0, 0), 2);
  EXPECT_EQ(next_token({1, 3, 3, 2}, Ids{1, 2}, penal, 0, 0), 3);
}

// The penalty comes before the temperature, top-k before top-p.
TEST(Sampling, the_order_of_the_steps) {
  SamplingOptions options;
  options.temperature = 0.5;
  options.top_k = 2;
  options.top_p = 0.6;
  options.repetition_penalty = 4;
  Xoshiro256 random(11);
  for (std::uint64_t trial = 0; trial < 300; ++trial) {
    const Logits logits = random_logits(random, 12);
    const Ids seen = {0, 3, 8};
    Logits by_hand = logits;
    for (const std::int32_t id : seen) {
      double& l = by_hand[static_cast<std::size_t>(id)];
      l = l > 0 ? l / 4 : l * 4;
    }
    for (double& l : by_hand) l /= 0.5;
    const auto kept = keep_top_p(keep_top_k(candidates(by_hand), 2), 0.6);
    EXPECT_EQ(next_token(logits, seen, options, 1, trial),
              draw(kept, uniform_at(options.seed, 1, trial)));
  }
  // With top-p first, 0.6 of {.5, .3, .2} would keep two; behind top-k = 2 the
  // first has .625 of what is left and stands alone.
  EXPECT_EQ(
      keep_top_p(keep_top_k(candidates(logs({0.5, 0.3, 0.2})), 2), 0.6).size(),
      1U);
}

TEST(Sampling, logits_that_are_no_numbers_are_an_error) {
  for (const double temperature : {0.0, 1.0}) {
    SamplingOptions options;
    options.temperature = temperature;
    EXPECT_THROW(next_token({0, std::nan("")}, {}, options, 0, 0), Error);
    EXPECT_THROW(next_token({0, kInfinity}, {}, options, 0, 0), Error);
    EXPECT_THROW(next_token({-kInfinity}, {}, options, 0, 0), Error);
    EXPECT_EQ(next_token({-kInfinity, 0}, {}, options, 0, 0), 1);
  }
}

TEST(Sampling, options_out_of_range_are_named) {
  const auto message_of = [](auto change) -> std::string {
    SamplingOptions options;
    change(options);
    try {
      check_sampling(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      return error.what();
    }
    return "";
  };
  using testing::HasSubstr;
  EXPECT_EQ(message_of([](auto&) {}), "");
  for (const double bad : {-0.1, std::nan(""), kInfinity}) {
    EXPECT_THAT(message_of([&](auto& o) { o.temperature = bad; }),
                HasSubstr("--temperature is "));
  }
  EXPECT_THAT(message_of([](auto& o) { o.top_k = -1; }),
              HasSubstr("--top-k is -1"));
  for (const double bad : {0.0, -1.0, 1.01, std::nan("")}) {
    EXPECT_THAT(message_of([&](auto& o) { o.top_p = bad; }),
                HasSubstr("--top-p is "));
  }
  for (const double bad : {0.0, -1.0, std::nan(""), kInfinity}) {
    EXPECT_THAT(message_of([&](auto& o) { o.repetition_penalty = bad; }),
                HasSubstr("--repetition-penalty is "));
  }
}

}  // namespace
}  // namespace osdn::generate
