#include "osdn/ops/recompute.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "differentiable.h"

namespace osdn::ops {

std::vector<at::Tensor> recompute(const TensorFunction& part,
                                  const std::vector<at::Tensor>& inputs) {
  return differentiable(inputs, [&]() -> ForwardResult {
    return {part(inputs), inputs, [part](const BackwardCall& call) {
              Tensors again;
              for (const at::Tensor& kept : call.saved) {
                again.push_back(kept.detach().requires_grad_(true));
              }
              const at::AutoGradMode with_gradients(true);
              const Tensors outputs = part(again);
              Tensors used, gradients;
              for (std::size_t i = 0; i < outputs.size(); ++i) {
                if (!call.grad_outputs[i].defined()) continue;
                used.push_back(outputs[i]);
                gradients.push_back(call.grad_outputs[i]);
              }
              torch::autograd::backward(used, gradients);
              Tensors grads;
              for (const at::Tensor& input : again) {
                grads.push_back(input.grad());
              }
              return grads;
            }};
  });
}

}  // namespace osdn::ops
