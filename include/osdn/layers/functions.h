#pragma once
// The layers' small differentiable functions.

#include <ATen/core/Tensor.h>

namespace osdn::layers {

/// x / sqrt(mean(x^2) + eps) * weight over the last dimension; statistics in
/// fp32 or better.
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

/// down(silu(gate(x)) * up(x)), weights [out, in].
at::Tensor swiglu(const at::Tensor& x, const at::Tensor& gate,
                  const at::Tensor& up, const at::Tensor& down);

}  // namespace osdn::layers
