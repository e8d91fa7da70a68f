#pragma once
// The inputs of operator cases, drawn where they are wanted.

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <cstdint>
#include <vector>

#include "osdn/bench/operator_table.h"
#include "osdn/ops/linear_cross_entropy.h"

namespace osdn::bench {

using Shape = std::vector<std::int64_t>;
using Inputs = std::vector<OperatorInput>;

/// Draws the inputs of one case where they are wanted.
class Drawer {
 public:
  Drawer(std::uint64_t seed, at::Device device)
      : options_(at::TensorOptions().device(device).dtype(
            device.is_cpu() ? at::kDouble : at::kFloat)),
        generator_(at::globalContext().defaultGenerator(device).clone()) {
    generator_.set_current_seed(seed);
  }

  at::Tensor normal(const Shape& shape, double scale = 1) {
    return at::randn(shape, generator_, options_).mul_(scale);
  }
  at::Tensor uniform(const Shape& shape, double low, double high) {
    return at::rand(shape, generator_, options_).mul_(high - low).add_(low);
  }
  /// About one in ten is kNoLabel.
  at::Tensor labels(std::int64_t count, std::int64_t vocab) {
    const at::Tensor drawn = at::randint(-(vocab / 9), vocab, {count},
                                         generator_, options_.dtype(at::kLong));
    return drawn.masked_fill(drawn.lt(0), ops::kNoLabel);
  }

 private:
  at::TensorOptions options_;
  at::Generator generator_;
};

}  // namespace osdn::bench
