#include "osdn/optim/adamw.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "osdn/core/error.h"
#include "osdn/core/random.h"
#include "support/held_tensors.h"

namespace osdn::optim {
namespace {

config::OptimizerConfig options() {
  config::OptimizerConfig out;
  out.beta1 = 0.9;
  out.beta2 = 0.95;
  out.eps = 1e-8;
  out.weight_decay = 0.1;
  return out;
}

at::Tensor random(std::uint64_t seed, std::int64_t size, at::ScalarType type) {
  Xoshiro256 generator(seed);
  at::Tensor out = at::empty({size}, at::kDouble);
  for (std::int64_t i = 0; i < size; ++i) {
    out.data_ptr<double>()[i] = generator.normal();
  }
  return out.to(type);
}

OptimizedTensor parameter(const std::string& name, std::uint64_t seed,
                          std::int64_t size, bool decayed,
                          at::ScalarType type = at::kDouble) {
  return {name, random(seed, size, type).set_requires_grad(true), decayed};
}

void set_gradient(const OptimizedTensor& p, std::uint64_t seed) {
  p.tensor.mutable_grad() =
      random(seed, p.tensor.numel(), p.tensor.scalar_type());
}

std::vector<double> values(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kDouble).contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.numel() == b.numel() &&
         std::memcmp(a.data_ptr(), b.data_ptr(), a.nbytes()) == 0;
}

// Textbook AdamW on one element with its own powers of beta.
struct Element {
  double p, m = 0, v = 0;
  void update(int t, double g, double lr, double wd,
              const config::OptimizerConfig& o) {
    m = o.beta1 * m + (1 - o.beta1) * g;
    v = o.beta2 * v + (1 - o.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(o.beta1, t));
    const double v_hat = v / (1 - std::pow(o.beta2, t));
    p -= lr * wd * p;
    p -= lr * m_hat / (std::sqrt(v_hat) + o.eps);
  }
};

TEST(AdamW, agrees_with_the_textbook_for_both_groups) {
  // 70,000 elements: more than two blocks, with a tail.
  const std::vector<OptimizedTensor> parameters = {
      parameter("decayed", 1, 70001, true), parameter("free", 2, 37, false)};
  std::vector<std::vector<Element>> expected;
  for (const OptimizedTensor& p : parameters) {
    expected.emplace_back();
    for (const double value : values(p.tensor)) {
      expected.back().push_back({value});
    }
  }
  AdamW adamw(parameters, options());
  for (int t = 1; t <= 4; ++t) {
    const double lr = 1e-2 / t;
    const double clip = 1.0 / t;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      set_gradient(parameters[i], 10 * static_cast<std::uint64_t>(t) + i);
      const std::vector<double> g = values(parameters[i].tensor.grad());
      for (std::size_t j = 0; j < g.size(); ++j) {
        // Decay reaches the decayed group only (R7).
        expected[i][j].update(t, g[j] * clip, lr, i == 0 ? 0.1 : 0.0,
                              options());
      }
    }
    adamw.step(lr, clip);
  }
  EXPECT_EQ(adamw.counters().updates, 4);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::vector<double> got = values(parameters[i].tensor);
    for (std::size_t j = 0; j < got.size(); ++j) {
      ASSERT_NEAR(got[j], expected[i][j].p, 1e-13)
          << parameters[i].name << "[" << j << "]";
    }
  }
}

TEST(AdamW, first_update_has_the_size_of_the_learning_rate) {
  const OptimizedTensor p = parameter("p", 1, 100, false, at::kFloat);
  const at::Tensor before = p.tensor.detach().clone();
  set_gradient(p, 2);
  AdamW adamw({p}, options());
  adamw.step(1e-3, 1.0);
  const std::vector<double> moved = values((p.tensor.detach() - before).abs());
  for (const double distance : moved) {
    EXPECT_NEAR(distance, 1e-3, 2e-6);
  }
}

TEST(AdamW, L2_same_bits_for_any_number_of_threads) {
  const int threads_before = at::get_num_threads();
  std::vector<at::Tensor> results;
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    const OptimizedTensor p = parameter("p", 1, 200003, true, at::kFloat);
    AdamW adamw({p}, options());
    for (int t = 0; t < 3; ++t) {
      set_gradient(p, 50 + static_cast<std::uint64_t>(t));
      adamw.step(1e-2, 0.7);
    }
    results.push_back(p.tensor.detach().clone());
  }
  at::set_num_threads(threads_before);
  EXPECT_TRUE(same_bits(results[0], results[1]));
  EXPECT_TRUE(same_bits(results[0], results[2]));
}

TEST(AdamW, R1_state_taken_back_gives_the_next_update_the_same_bits) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const OptimizedTensor whole = parameter("p", 1, 40000, true, type);
    AdamW uninterrupted({whole}, options());
    for (int t = 0; t < 3; ++t) {
      set_gradient(whole, 50 + static_cast<std::uint64_t>(t));
      uninterrupted.step(1e-2, 1.0);
    }
    OptimizedTensor again = whole;
    again.tensor = whole.tensor.detach().clone().set_requires_grad(true);
    AdamW resumed({again}, options());
    const ops::HostTensors kept = test::moments_of(uninterrupted, {"p"});
    EXPECT_EQ(kept.views()[0].dtype,
              type == at::kFloat ? DType::kF32 : DType::kF64);
    resumed.load_state(kept.views(), uninterrupted.counters());

    set_gradient(whole, 60);
    set_gradient(again, 60);
    uninterrupted.step(1e-2, 1.0);
    resumed.step(1e-2, 1.0);
    EXPECT_TRUE(same_bits(whole.tensor.detach(), again.tensor.detach()));
  }
}

TEST(AdamW, R4_bias_correction_follows_a_change_of_the_betas) {
  // With one constant gradient the corrected moments are weighted means of
  // equal values, whatever betas made the weights: each update is lr.
  const OptimizedTensor p = parameter("p", 1, 10, false);
  p.tensor.mutable_grad() = at::full({10}, 3.0, at::kDouble);
  AdamW before({p}, options());
  before.step(1e-3, 1.0);
  before.step(1e-3, 1.0);
  config::OptimizerConfig changed = options();
  changed.beta1 = 0.5;
  changed.beta2 = 0.999;
  AdamW after({p}, changed);
  after.load_state(test::moments_of(before, {"p"}).views(), before.counters());
  const at::Tensor start = p.tensor.detach().clone();
  after.step(1e-3, 1.0);
  for (const double moved : values(start - p.tensor.detach())) {
    EXPECT_NEAR(moved, 1e-3, 1e-11);
  }
}

TEST(AdamW, R6_small_updates_of_weights_near_one_are_not_lost) {
  OptimizedTensor p = parameter("norm", 1, 8, false, at::kFloat);
  p.tensor = at::ones({8}, at::kFloat).set_requires_grad(true);
  AdamW adamw({p}, options());
  for (int t = 0; t < 100; ++t) {
    p.tensor.mutable_grad() = at::ones({8}, at::kFloat);
    adamw.step(1e-5, 1.0);  // far below half a bf16 step at 1
  }
  for (const double value : values(p.tensor)) {
    EXPECT_NEAR(value, 1 - 100e-5, 1e-5);
  }
}

TEST(AdamW, missing_gradient_counts_as_zero) {
  const OptimizedTensor p = parameter("p", 1, 10, true);
  const std::vector<double> before = values(p.tensor);
  AdamW adamw({p}, options());
  adamw.step(0.5, 1.0);
  const std::vector<double> after = values(p.tensor);
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_NEAR(after[i], before[i] * (1 - 0.5 * 0.1), 1e-15);
  }
}

TEST(AdamW, state_that_does_not_fit_is_refused_with_every_name) {
  AdamW adamw({parameter("a", 1, 4, true), parameter("b", 2, 5, true)},
              options());
  AdamW other(
      {parameter("a", 1, 4, true, at::kFloat), parameter("c", 2, 5, true)},
      options());
  try {
    adamw.load_state(test::moments_of(other, {"a", "c"}).views(), {});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), testing::HasSubstr("a.exp_avg is F32 [4]"));
    EXPECT_THAT(error.what(), testing::HasSubstr("b.exp_avg_sq is missing"));
    EXPECT_THAT(error.what(),
                testing::HasSubstr("c.exp_avg belongs to no parameter"));
  }
}

TEST(AdamW, parameters_it_cannot_hold_are_refused_by_name) {
  const OptimizedTensor half = {"half", at::zeros({2}, at::kHalf), true};
  EXPECT_THROW(AdamW({half}, options()), Error);
  const OptimizedTensor gaps = {"gaps", at::zeros({4, 4}).t().slice(1, 0, 2),
                                true};
  EXPECT_THROW(AdamW({gaps}, options()), Error);
}

}  // namespace
}  // namespace osdn::optim
