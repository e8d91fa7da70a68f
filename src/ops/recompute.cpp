#include "osdn/ops/recompute.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace osdn::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What an autograd context can keep of a function.
struct KeptFunction : torch::CustomClassHolder {
  explicit KeptFunction(TensorFunction f) : function(std::move(f)) {}
  TensorFunction function;
};

class RecomputeFunction : public torch::autograd::Function<RecomputeFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, at::TensorList inputs,
                               const TensorFunction& part) {
    ctx->save_for_backward(inputs.vec());
    ctx->saved_data["part"] =
        c10::IValue::make_capsule(c10::make_intrusive<KeptFunction>(part));
    return part(inputs.vec());
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& grad_outputs) {
    const auto part = ctx->saved_data["part"].toCapsule();
    variable_list inputs;
    for (const at::Tensor& kept : ctx->get_saved_variables()) {
      inputs.push_back(kept.detach().requires_grad_(true));
    }
    const at::AutoGradMode with_gradients(true);
    const variable_list outputs =
        static_cast<const KeptFunction&>(*part).function(inputs);
    torch::autograd::backward(outputs, grad_outputs);
    variable_list grads;
    for (const at::Tensor& input : inputs) grads.push_back(input.grad());
    grads.emplace_back();  // of `part`
    return grads;
  }
};

}  // namespace

std::vector<at::Tensor> recompute(const TensorFunction& part,
                                  const std::vector<at::Tensor>& inputs) {
  return RecomputeFunction::apply(at::TensorList(inputs), part);
}

}  // namespace osdn::ops
