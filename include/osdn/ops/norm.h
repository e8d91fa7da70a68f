#pragma once
// RMSNorm, layers.md 1 and 2: y = x / sqrt(mean(x^2) + eps) * weight over the
// last dimension, statistics in fp32 or better. On the CPU everything is of one
// dtype; on a GPU weights are float, the rest bfloat16 or float. All
// differentiable.

#include <ATen/core/Tensor.h>

namespace osdn::ops {

/// x [R, h], weight [h].
at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps);

struct ResidualNorm {
  at::Tensor sum;  ///< x + residual
  at::Tensor y;    ///< rms_norm(sum)
};
/// The addition to the residual stream and the norm behind it in one pass.
ResidualNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual,
                          const at::Tensor& weight, double eps);

enum class GateActivation { kSilu, kSigmoid };

/// The output norm of an attention layer: rms_norm(o) act(gate), the norm over
/// each head. o [T, HV, V], weight [V], gate [T, HV V] or undefined: no gate.
at::Tensor gated_rms_norm(const at::Tensor& o, const at::Tensor& gate,
                          const at::Tensor& weight, GateActivation activation,
                          double eps);

}  // namespace osdn::ops
