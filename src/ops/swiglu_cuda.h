#pragma once
// The feed-forward part of a block on a GPU: matrix products through LibTorch
// around kernels/swiglu. Inputs are checked already.

#include <ATen/core/Tensor.h>

namespace osdn::ops {

at::Tensor swiglu_mlp_cuda(const at::Tensor& x, const at::Tensor& gate,
                           const at::Tensor& up, const at::Tensor& down);

}  // namespace osdn::ops
