#pragma once
// The norms on a GPU: kernels/norm behind autograd. Inputs are checked already.

#include "osdn/ops/norm.h"

namespace osdn::ops {

/// residual may be undefined; then sum is x.
ResidualNorm rms_norm_cuda(const at::Tensor& x, const at::Tensor& residual,
                           const at::Tensor& weight, double eps);

at::Tensor gated_rms_norm_cuda(const at::Tensor& o, const at::Tensor& gate,
                               const at::Tensor& weight,
                               GateActivation activation, double eps);

}  // namespace osdn::ops
