#include "osdn/optim/grad_norm.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "osdn/core/random.h"

namespace osdn::optim {
namespace {

at::Tensor random(std::uint64_t seed, std::int64_t size) {
  Xoshiro256 generator(seed);
  at::Tensor out = at::empty({size}, at::kFloat);
  for (std::int64_t i = 0; i < size; ++i) {
    out.data_ptr<float>()[i] = static_cast<float>(generator.normal());
  }
  return out;
}

TEST(GradNorm, sums_over_all_tensors_in_double) {
  // 1 next to 2^24 ones of 2^-12: in float the small ones would be lost.
  const std::vector<at::Tensor> gradients = {
      at::ones({1}, at::kFloat), at::Tensor(),
      at::full({1 << 20}, std::pow(2.0, -12), at::kFloat),
      at::full({3}, 2.0, at::kDouble)};
  EXPECT_DOUBLE_EQ(global_norm(gradients),
                   std::sqrt(1 + std::pow(2.0, 20 - 24) + 12));
  EXPECT_EQ(global_norm({}), 0.0);
}

TEST(GradNorm, L2_same_bits_for_any_number_of_threads) {
  const std::vector<at::Tensor> gradients = {random(1, 300001), random(2, 17),
                                             random(3, 65536)};
  const int threads_before = at::get_num_threads();
  std::vector<double> norms;
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    norms.push_back(global_norm(gradients));
  }
  at::set_num_threads(threads_before);
  EXPECT_EQ(norms[0], norms[1]);
  EXPECT_EQ(norms[0], norms[2]);
}

TEST(GradNorm, P1_one_bad_element_anywhere_shows) {
  for (const double bad : {std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()}) {
    for (const std::int64_t place : {0, 7, 40000, 65536}) {
      at::Tensor gradient = at::zeros({65537}, at::kFloat);
      gradient.data_ptr<float>()[place] = static_cast<float>(bad);
      EXPECT_FALSE(std::isfinite(global_norm({{gradient}}))) << place;
    }
  }
}

TEST(GradNorm, gradients_with_gaps_in_memory_count_once) {
  const at::Tensor square = random(1, 64).reshape({8, 8});
  EXPECT_DOUBLE_EQ(global_norm({{square.t()}}), global_norm({{square}}));
  const at::Tensor expanded = at::full({1}, 2.0, at::kFloat).expand({9});
  EXPECT_DOUBLE_EQ(global_norm({{expanded}}), 6.0);
}

TEST(ClipFactor, only_shrinks) {
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_NEAR(clip_factor(4.0, 1.0), 0.25, 1e-6);
  EXPECT_EQ(clip_factor(1e9, 0.0), 1.0);  // no clip
  EXPECT_EQ(clip_factor(0.0, 1.0), 1.0);
}

}  // namespace
}  // namespace osdn::optim
