#include "osdn/ops/project.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include "osdn/core/error.h"
#include "tensor_check.h"

namespace osdn::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class ProjectFunction : public torch::autograd::Function<ProjectFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x,
                               at::TensorList weights) {
    variable_list kept{x};
    variable_list out;
    for (const at::Tensor& weight : weights) {
      kept.push_back(weight);
      out.push_back(at::mm(x, weight.t()));
    }
    ctx->save_for_backward(kept);
    ctx->set_materialize_grads(false);
    return out;
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& grad_outputs) {
    const variable_list kept = ctx->get_saved_variables();
    variable_list grads(kept.size());
    for (std::size_t i = 0; i < grad_outputs.size(); ++i) {
      const at::Tensor& grad = grad_outputs[i];
      if (!grad.defined()) continue;
      const at::Tensor& weight = kept[i + 1];
      if (ctx->needs_input_grad(0)) {
        if (grads[0].defined()) {
          grads[0].addmm_(grad, weight);
        } else {
          grads[0] = at::mm(grad, weight);
        }
      }
      if (ctx->needs_input_grad(i + 1)) {
        grads[i + 1] = at::mm(grad.t(), kept[0]);
      }
    }
    return grads;
  }
};

}  // namespace

std::vector<at::Tensor> project(const at::Tensor& x,
                                const std::vector<at::Tensor>& weights) {
  if (!x.defined() || x.dim() != 2) {
    throw Error("project: x [T, h] is needed");
  }
  check_computable("project", x);
  for (const at::Tensor& weight : weights) {
    check_tensor("project", "weight", weight,
                 {weight.defined() ? weight.size(0) : 0, x.size(1)}, x);
  }
  return ProjectFunction::apply(x, at::TensorList(weights));
}

}  // namespace osdn::ops
