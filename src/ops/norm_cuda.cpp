#include "norm_cuda.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "cuda_call.h"
#include "kernels/norm/gated_norm.cuh"
#include "kernels/norm/rms_norm.cuh"
#include "tensor_check.h"

namespace osdn::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

class RmsNormFunction : public torch::autograd::Function<RmsNormFunction> {
 public:
  /// Returns y, and sum before it where there is a residual.
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x_given,
                               const MaybeTensor& residual_given,
                               const at::Tensor& weight, double eps) {
    const at::Tensor x = x_given.contiguous();
    const at::Tensor residual =
        contiguous(residual_given.value_or(at::Tensor()));
    const bool add = residual.defined();
    const at::Tensor sum = add ? at::empty_like(x) : x;
    const at::Tensor y = at::empty_like(x);
    kernels::RmsNormFwdParams p;
    p.width = x.size(-1);
    p.rows = x.numel() / p.width;
    p.element = element_of(x);
    p.eps = static_cast<float>(eps);
    p.x = pointer(x);
    p.residual = pointer(residual);
    p.weight = floats(weight);
    p.sum = add ? pointer(sum) : nullptr;
    p.y = pointer(y);
    kernels::rms_norm_fwd(p, current_stream(x));
    ctx->save_for_backward({sum, weight});
    ctx->saved_data["eps"] = eps;
    ctx->saved_data["add"] = add;
    ctx->set_materialize_grads(false);
    if (add) return {sum, y};
    return {y};
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& grad_outputs) {
    const variable_list saved = ctx->get_saved_variables();
    const bool add = ctx->saved_data["add"].toBool();
    const at::Tensor grad_sum =
        add ? contiguous(grad_outputs.front()) : at::Tensor();
    at::Tensor grad_y = contiguous(grad_outputs.back());
    if (!grad_y.defined()) grad_y = at::zeros_like(saved[0]);
    const at::Tensor grad_x = at::empty_like(saved[0]);
    const at::Tensor grad_weight = at::empty_like(saved[1]);
    kernels::RmsNormBwdParams p;
    p.width = saved[0].size(-1);
    p.rows = saved[0].numel() / p.width;
    p.element = element_of(saved[0]);
    p.eps = static_cast<float>(ctx->saved_data["eps"].toDouble());
    p.x = pointer(saved[0]);
    p.weight = floats(saved[1]);
    p.grad_y = pointer(grad_y);
    p.grad_sum = pointer(grad_sum);
    p.grad_x = pointer(grad_x);
    p.grad_weight = floats(grad_weight);
    const at::Tensor workspace =
        device_bytes(kernels::rms_norm_bwd_workspace_bytes(p), grad_x);
    p.workspace = pointer(workspace);
    kernels::rms_norm_bwd(p, current_stream(grad_x));
    return {grad_x, add ? grad_x : at::Tensor(), grad_weight, at::Tensor()};
  }
};

kernels::GatedNormShape shape_of(const at::Tensor& o, const at::Tensor& gate,
                                 GateActivation activation, double eps) {
  kernels::GatedNormShape shape;
  shape.tokens = o.size(0);
  shape.heads = o.size(1);
  shape.width = o.size(2);
  shape.element = element_of(o);
  shape.activation = !gate.defined() ? kernels::GateActivation::kNone
                     : activation == GateActivation::kSilu
                         ? kernels::GateActivation::kSilu
                         : kernels::GateActivation::kSigmoid;
  shape.eps = static_cast<float>(eps);
  return shape;
}

class GatedRmsNormFunction
    : public torch::autograd::Function<GatedRmsNormFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& o_given,
                            const MaybeTensor& gate_given,
                            const at::Tensor& weight, GateActivation activation,
                            double eps) {
    const at::Tensor o = o_given.contiguous();
    const at::Tensor gate = contiguous(gate_given.value_or(at::Tensor()));
    at::Tensor y = at::empty_like(o);
    kernels::GatedNormFwdParams p;
    p.shape = shape_of(o, gate, activation, eps);
    p.o = pointer(o);
    p.gate = pointer(gate);
    p.weight = floats(weight);
    p.y = pointer(y);
    kernels::gated_norm_fwd(p, current_stream(o));
    ctx->save_for_backward({o, gate, weight});
    ctx->saved_data["silu"] = activation == GateActivation::kSilu;
    ctx->saved_data["eps"] = eps;
    return y;
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& grad_outputs) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor grad_y = grad_outputs[0].contiguous();
    const at::Tensor grad_o = empty_beside(saved[0]);
    const at::Tensor grad_gate = empty_beside(saved[1]);
    const at::Tensor grad_weight = empty_beside(saved[2]);
    kernels::GatedNormBwdParams p;
    p.shape =
        shape_of(saved[0], saved[1],
                 ctx->saved_data["silu"].toBool() ? GateActivation::kSilu
                                                  : GateActivation::kSigmoid,
                 ctx->saved_data["eps"].toDouble());
    p.o = pointer(saved[0]);
    p.gate = pointer(saved[1]);
    p.weight = floats(saved[2]);
    p.grad_y = pointer(grad_y);
    p.grad_o = pointer(grad_o);
    p.grad_gate = pointer(grad_gate);
    p.grad_weight = floats(grad_weight);
    const at::Tensor workspace =
        device_bytes(kernels::gated_norm_bwd_workspace_bytes(p), grad_o);
    p.workspace = pointer(workspace);
    kernels::gated_norm_bwd(p, current_stream(grad_o));
    return {grad_o, grad_gate, grad_weight, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

ResidualNorm rms_norm_cuda(const at::Tensor& x, const at::Tensor& residual,
                           const at::Tensor& weight, double eps) {
  const auto out = RmsNormFunction::apply(x, maybe(residual), weight, eps);
  return {residual.defined() ? out.front() : x, out.back()};
}

at::Tensor gated_rms_norm_cuda(const at::Tensor& o, const at::Tensor& gate,
                               const at::Tensor& weight,
                               GateActivation activation, double eps) {
  return GatedRmsNormFunction::apply(o, maybe(gate), weight, activation, eps);
}

}  // namespace osdn::ops
