#pragma once
// One autograd node for all operators, so that an operator is two functions and
// LibTorch's heavy autograd headers are read once.

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace osdn::ops {

using Tensors = std::vector<at::Tensor>;

struct BackwardCall {
  const Tensors& saved;             ///< what the forward kept
  const Tensors& grad_outputs;      ///< undefined where nothing came back
  const std::vector<bool>& needed;  ///< by input: its gradient is wanted
};

struct ForwardResult {
  Tensors outputs;
  /// Tensors for the backward. The function below must not hold tensors itself:
  /// one that is an output would keep its own node alive for ever.
  Tensors saved;
  /// Gradients in the order of the inputs; undefined for none.
  std::function<Tensors(const BackwardCall&)> backward;
};

/// Runs `forward` without recording and makes its outputs depend on `inputs`
/// (undefined ones may be among them) through its backward.
Tensors differentiable(const Tensors& inputs,
                       const std::function<ForwardResult()>& forward);

}  // namespace osdn::ops
