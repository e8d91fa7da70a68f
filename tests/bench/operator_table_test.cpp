// The operators' gradients against finite differences, case by case of the
// table, and fp32 against float64.

#include "osdn/bench/operator_table.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "osdn/bench/compare.h"

namespace osdn::bench {
namespace {

std::vector<OperatorCase> checks() {
  std::vector<OperatorCase> out = operator_table();
  std::erase_if(out,
                [](const OperatorCase& c) { return c.use != Use::kCheck; });
  return out;
}

std::string title(const OperatorCase& c) {
  return c.op + " (" + c.shape + ")";
}

/// sum over outputs of <output, weight>, weights as run_both_ways draws them.
double projected(const OperatorCase& c, const std::vector<OperatorInput>& in,
                 const std::vector<at::Tensor>& weights) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> values;
  for (const OperatorInput& x : in) values.push_back(x.value);
  const auto outputs = c.run(values, ops::Documents(c.cu_seqlens));
  double sum = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    sum += (outputs[i] * weights[i]).sum().item<double>();
  }
  return sum;
}

TEST(OperatorTable, every_gradient_agrees_with_central_differences) {
  constexpr double kStep = 1e-5;
  for (const OperatorCase& c : checks()) {
    if (!c.smooth || !c.differentiable) continue;
    const std::vector<OperatorInput> in = c.draw(3, at::kCPU);
    const auto all = run_both_ways(c, in, at::kCPU, at::kDouble, 17);
    std::size_t leaves = 0;
    for (const OperatorInput& x : in) leaves += x.role != Role::kLabels;
    const std::size_t outputs = all.size() - leaves;
    std::vector<at::Tensor> weights;
    for (std::size_t i = 0; i < outputs; ++i) {
      weights.push_back(upstream_gradient(all[i], 17 + i));
    }
    std::size_t gradient = outputs;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i].role == Role::kLabels) continue;
      // Along the gradient's own signs, where no cancellation hides a fault.
      const at::Tensor direction = all[gradient].sign();
      const double expected = (all[gradient] * direction).sum().item<double>();
      std::vector<OperatorInput> up = in, down = in;
      up[i].value = in[i].value + kStep * direction;
      down[i].value = in[i].value - kStep * direction;
      const double found =
          (projected(c, up, weights) - projected(c, down, weights)) /
          (2 * kStep);
      EXPECT_NEAR(found, expected, 1e-5 * std::abs(expected) + 1e-7)
          << title(c) << ", " << in[i].name;
      ++gradient;
    }
  }
}

// A case with kinks: an element that rounding moves across one has another
// gradient altogether; one in a hundred may.
TEST(OperatorTable, float_agrees_with_double) {
  for (const OperatorCase& c : checks()) {
    for (const Difference& d : compare(c, at::kCPU, at::kFloat, 5)) {
      EXPECT_LT(d.error, c.smooth ? 1e-4 : 1e-2)
          << title(c) << ", " << d.tensor;
    }
  }
}

TEST(OperatorTable, names_no_case_twice) {
  std::set<std::string> seen;
  for (const OperatorCase& c : operator_table()) {
    EXPECT_TRUE(seen.insert(title(c)).second) << title(c);
  }
}

}  // namespace
}  // namespace osdn::bench
