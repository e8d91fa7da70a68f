#include "norm_cuda.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include "cuda_call.h"
#include "differentiable.h"
#include "kernel_options.h"
#include "kernels/norm/gated_norm.cuh"
#include "kernels/norm/rms_norm.cuh"
#include "tensor_check.h"

namespace osdn::ops {
namespace {

/// saved: sum (or x), weight.
Tensors rms_norm_backward(const BackwardCall& call, double eps, bool add) {
  const at::Tensor& sum = call.saved[0];
  const at::Tensor grad_sum =
      add ? contiguous(call.grad_outputs.front()) : at::Tensor();
  at::Tensor grad_y = contiguous(call.grad_outputs.back());
  if (!grad_y.defined()) grad_y = at::zeros_like(sum);
  const at::Tensor grad_x = at::empty_like(sum);
  const at::Tensor grad_weight = at::empty_like(call.saved[1]);
  kernels::RmsNormBwdParams p;
  p.width = sum.size(-1);
  p.rows = sum.numel() / p.width;
  p.element = element_of(sum);
  p.eps = static_cast<float>(eps);
  p.x = pointer(sum);
  p.weight = floats(call.saved[1]);
  p.grad_y = pointer(grad_y);
  p.grad_sum = pointer(grad_sum);
  p.grad_x = pointer(grad_x);
  p.grad_weight = floats(grad_weight);
  const at::Tensor workspace =
      device_bytes(kernels::rms_norm_bwd_workspace_bytes(p), grad_x);
  p.workspace = pointer(workspace);
  kernels::rms_norm_bwd(p, current_stream(grad_x));
  return {grad_x, grad_weight, add ? grad_x : at::Tensor()};
}

kernels::GatedNormShape shape_of(const at::Tensor& o, const at::Tensor& gate,
                                 GateActivation activation, double eps) {
  kernels::GatedNormShape shape;
  shape.tokens = o.size(0);
  shape.heads = o.size(1);
  shape.width = o.size(2);
  shape.element = element_of(o);
  shape.activation = activation_of(gate, activation);
  shape.eps = static_cast<float>(eps);
  return shape;
}

/// saved: o, gate, weight.
Tensors gated_norm_backward(const BackwardCall& call, GateActivation activation,
                            double eps) {
  const Tensors& saved = call.saved;
  const at::Tensor grad_y = call.grad_outputs[0].contiguous();
  Tensors grads;
  for (const at::Tensor& input : saved) grads.push_back(empty_beside(input));
  kernels::GatedNormBwdParams p;
  p.shape = shape_of(saved[0], saved[1], activation, eps);
  p.o = pointer(saved[0]);
  p.gate = pointer(saved[1]);
  p.weight = floats(saved[2]);
  p.grad_y = pointer(grad_y);
  p.grad_o = pointer(grads[0]);
  p.grad_gate = pointer(grads[1]);
  p.grad_weight = floats(grads[2]);
  const at::Tensor workspace =
      device_bytes(kernels::gated_norm_bwd_workspace_bytes(p), grad_y);
  p.workspace = pointer(workspace);
  kernels::gated_norm_bwd(p, current_stream(grad_y));
  return grads;
}

}  // namespace

ResidualNorm rms_norm_cuda(const at::Tensor& x_given,
                           const at::Tensor& residual_given,
                           const at::Tensor& weight, double eps) {
  const bool add = residual_given.defined();
  const Tensors out =
      differentiable({x_given, weight, residual_given}, [&]() -> ForwardResult {
        const at::Tensor x = x_given.contiguous();
        const at::Tensor residual = contiguous(residual_given);
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
        return {add ? Tensors{sum, y} : Tensors{y},
                {sum, weight},
                [eps, add](const BackwardCall& call) {
                  return rms_norm_backward(call, eps, add);
                }};
      });
  return {add ? out.front() : x_given, out.back()};
}

at::Tensor gated_rms_norm_cuda(const at::Tensor& o_given,
                               const at::Tensor& gate_given,
                               const at::Tensor& weight,
                               GateActivation activation, double eps) {
  return differentiable({o_given, gate_given, weight}, [&]() -> ForwardResult {
    const at::Tensor o = o_given.contiguous();
    const at::Tensor gate = contiguous(gate_given);
    const at::Tensor y = at::empty_like(o);
    kernels::GatedNormFwdParams p;
    p.shape = shape_of(o, gate, activation, eps);
    p.o = pointer(o);
    p.gate = pointer(gate);
    p.weight = floats(weight);
    p.y = pointer(y);
    kernels::gated_norm_fwd(p, current_stream(o));
    return {
        {y}, {o, gate, weight}, [activation, eps](const BackwardCall& call) {
          return gated_norm_backward(call, activation, eps);
        }};
  })[0];
}

}  // namespace osdn::ops
