#include "osdn/ops/project.h"

#include <ATen/ops/mm.h>

#include "differentiable.h"
#include "osdn/core/error.h"
#include "tensor_check.h"

namespace osdn::ops {
namespace {

/// saved: x, then the weights.
Tensors project_backward(const BackwardCall& call) {
  Tensors grads(call.saved.size());
  for (std::size_t i = 0; i < call.grad_outputs.size(); ++i) {
    const at::Tensor& grad = call.grad_outputs[i];
    if (!grad.defined()) continue;
    const at::Tensor& weight = call.saved[i + 1];
    if (call.needed[0] && grads[0].defined()) {
      grads[0].addmm_(grad, weight);
    } else if (call.needed[0]) {
      grads[0] = at::mm(grad, weight);
    }
    if (call.needed[i + 1]) grads[i + 1] = at::mm(grad.t(), call.saved[0]);
  }
  return grads;
}

}  // namespace

std::vector<at::Tensor> project(const at::Tensor& x,
                                const std::vector<at::Tensor>& weights) {
  if (!x.defined() || x.dim() != 2) {
    throw Error("project: x [T, h] is needed");
  }
  check_computable("project", x);
  Tensors inputs{x};
  for (const at::Tensor& weight : weights) {
    check_tensor("project", "weight", weight,
                 {weight.defined() ? weight.size(0) : 0, x.size(1)}, x);
    inputs.push_back(weight);
  }
  return differentiable(inputs, [&]() -> ForwardResult {
    Tensors out;
    for (const at::Tensor& weight : weights) {
      out.push_back(at::mm(x, weight.t()));
    }
    return {out, inputs, project_backward};
  });
}

}  // namespace osdn::ops
