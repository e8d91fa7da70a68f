#pragma once
// The feed-forward part of a block: (silu(x gate^T) * (x up^T)) down^T.

#include <ATen/core/Tensor.h>

namespace osdn::ops {

/// x [T, h]; gate and up [i, h], down [h, i]; all of one dtype and device.
/// Differentiable. On a GPU the product silu(gate) * up is not kept for the
/// backward but formed again.
at::Tensor swiglu_mlp(const at::Tensor& x, const at::Tensor& gate,
                      const at::Tensor& up, const at::Tensor& down);

}  // namespace osdn::ops
