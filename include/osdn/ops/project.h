#pragma once
// Several projections of one input.

#include <ATen/core/Tensor.h>

#include <vector>

namespace osdn::ops {

/// x W^T for every W. x [T, h], W [n, h] -> [T, n]; all of one dtype and
/// device. Differentiable; the gradient of x is summed inside the matrix
/// products.
std::vector<at::Tensor> project(const at::Tensor& x,
                                const std::vector<at::Tensor>& weights);

}  // namespace osdn::ops
