#pragma once
// The head and its loss on a GPU: kernels/cross_entropy between matrix
// products. Inputs are checked already, labels apart.

#include <ATen/core/Tensor.h>

namespace osdn::ops {

/// As linear_cross_entropy; a label outside the vocabulary gives NaN, so that
/// the host need not wait for the labels.
at::Tensor linear_cross_entropy_cuda(const at::Tensor& hidden,
                                     const at::Tensor& weight,
                                     const at::Tensor& labels,
                                     std::int64_t chunk_tokens,
                                     bool want_gradient);

}  // namespace osdn::ops
