#pragma once
// Memory for time: a part of a model that keeps its inputs alone and runs a
// second time in the backward (Chen et al. 2016, "Training deep nets with
// sublinear memory cost").

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace osdn::ops {

using TensorFunction =
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

/// part(inputs), bit for bit, and the same gradients for the inputs and for
/// whatever leaf tensors `part` uses. At least one input must need a gradient.
/// `part` must give the same outputs each time it is called.
std::vector<at::Tensor> recompute(const TensorFunction& part,
                                  const std::vector<at::Tensor>& inputs);

}  // namespace osdn::ops
