// The operators on the GPU, case by case of the operator table: against float64
// on the CPU, and twice with the same bits.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "osdn/bench/compare.h"
#include "osdn/bench/operator_table.h"
#include "osdn/ops/gpu.h"

namespace osdn::bench {
namespace {

const at::Device kGpu(at::kCUDA, 0);

std::string title(const OperatorCase& c, at::ScalarType dtype) {
  return c.op + " (" + c.shape + ", " + at::toString(dtype) + ")";
}

class GpuOperators : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (!ops::gpu().usable) FAIL() << "no GPU: " << ops::gpu().why_not;
  }
};

// bf16 has 8 significant bits: rounding an output or a gradient once costs up
// to 2^-9 of each element, about 0.0017 in the root mean square; operators
// round two to four intermediate tensors on the way (the delta rule its
// chunk-local products, swiglu_mlp the gradients of its two products), and
// these add up to under 0.01. fp32 sums of a few hundred terms stay under 1e-5.
// Where a case has kinks (the box of the preconditioner), an element that
// rounding moves across one has another gradient altogether: the CPU's fp32
// differs as much.
TEST_P(GpuOperators, agree_with_float64_on_the_cpu) {
  for (const OperatorCase& c : operator_table()) {
    if (c.use != Use::kCheck) continue;
    const double tolerance =
        GetParam() == at::kBFloat16 || !c.smooth ? 1e-2 : 2e-5;
    for (const Difference& d : compare(c, kGpu, GetParam(), 5)) {
      EXPECT_LT(d.error, tolerance) << title(c, GetParam()) << ", " << d.tensor;
    }
  }
}

TEST_P(GpuOperators, give_the_same_bits_twice) {
  for (const OperatorCase& c : operator_table()) {
    if (c.use != Use::kCheck) continue;
    const auto inputs = c.draw(7, at::kCPU);
    const auto first = run_both_ways(c, inputs, kGpu, GetParam(), 11);
    const auto second = run_both_ways(c, inputs, kGpu, GetParam(), 11);
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_TRUE(at::equal(first[i], second[i]))
          << title(c, GetParam()) << ", tensor " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GpuOperators,
                         testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& type) {
                           return std::string(at::toString(type.param));
                         });

}  // namespace
}  // namespace osdn::bench
