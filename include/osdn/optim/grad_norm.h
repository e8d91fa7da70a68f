#pragma once
// The gradients' global norm, and the clip that follows from it.

#include <ATen/core/Tensor.h>

#include <span>

namespace osdn::optim {

/// sqrt of the sum of squares over all gradients (fp32 or fp64, on the CPU;
/// undefined ones count as zero), summed in double, in an order that does not
/// depend on the number of threads. NaN or infinite when an element is.
double global_norm(std::span<const at::Tensor> gradients);

/// What gradients are multiplied by: min(1, max_norm / (norm + 1e-6)); 1 when
/// max_norm is 0 (no clip).
double clip_factor(double norm, double max_norm);

}  // namespace osdn::optim
