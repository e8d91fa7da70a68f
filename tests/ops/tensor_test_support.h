#pragma once
// Small helpers of the operator tests: seeded random tensors, errors, and
// conversion to and from plain vectors.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstdint>
#include <vector>

#include "osdn/core/random.h"

namespace osdn::test {

inline double relative_rms(const at::Tensor& got, const at::Tensor& expected) {
  const at::Tensor e = expected.to(at::kDouble);
  const double norm = e.pow(2).mean().item<double>();
  const double error = (got.to(at::kDouble) - e).pow(2).mean().item<double>();
  return std::sqrt(norm > 0 ? error / norm : error);
}

/// Uniform in [lo, hi), float64, leaf.
inline at::Tensor uniform(std::uint64_t seed, std::vector<std::int64_t> shape,
                          double lo, double hi) {
  at::Tensor x = at::empty(shape, at::kDouble);
  Xoshiro256 random(seed);
  double* data = x.data_ptr<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    data[i] = lo + (hi - lo) * random.uniform();
  }
  return x;
}

inline at::Tensor from_vector(const std::vector<double>& values,
                              std::vector<std::int64_t> shape) {
  return at::from_blob(const_cast<double*>(values.data()), shape, at::kDouble)
      .clone();
}

inline std::vector<double> to_vector(const at::Tensor& x) {
  const at::Tensor flat = x.detach().to(at::kDouble).contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

}  // namespace osdn::test
