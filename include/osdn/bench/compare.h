#pragma once
// One operator case against float64 on the CPU.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "osdn/bench/operator_table.h"

namespace osdn::bench {

struct Difference {
  std::string tensor;  ///< "output 0", "gradient of k"
  /// |x - reference| / |reference| over all elements; NaN when any is NaN.
  double error = 0;
};

/// Every output and gradient of the case on `device` in `dtype`, against the
/// same arithmetic in float64 on the CPU, both from the inputs and upstream
/// gradients as `dtype` holds them.
std::vector<Difference> compare(const OperatorCase& c, at::Device device,
                                at::ScalarType dtype, std::uint64_t seed);

/// The gradient that is sent into an output: values that every dtype holds.
at::Tensor upstream_gradient(const at::Tensor& output, std::uint64_t seed);

/// Outputs and gradients of a case whose inputs are given, outputs first.
/// Output i gets upstream_gradient(output, seed + i).
std::vector<at::Tensor> run_both_ways(const OperatorCase& c,
                                      const std::vector<OperatorInput>& inputs,
                                      at::Device device, at::ScalarType dtype,
                                      std::uint64_t seed);

}  // namespace osdn::bench
