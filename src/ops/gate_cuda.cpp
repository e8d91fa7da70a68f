#include "gate_cuda.h"

#include <ATen/ops/empty.h>

#include "cuda_call.h"
#include "differentiable.h"
#include "tensor_check.h"

namespace osdn::ops {
namespace {

kernels::GateShape shape_of(const at::Tensor& x, const GateChoice& choice) {
  kernels::GateShape shape;
  shape.kind = choice.kind;
  shape.tokens = x.size(0);
  shape.heads = x.size(1);
  shape.head_width = x.dim() == 3 ? x.size(2) : 1;
  shape.element = element_of(x);
  shape.lower_bound = static_cast<float>(choice.lower_bound);
  shape.scale = static_cast<float>(choice.scale);
  return shape;
}

/// saved: x, A_log, bias.
Tensors gate_backward(const BackwardCall& call, const GateChoice& choice) {
  const at::Tensor& x = call.saved[0];
  const at::Tensor grad_y = call.grad_outputs[0].contiguous();
  Tensors grads;
  for (const at::Tensor& input : call.saved) {
    grads.push_back(empty_beside(input));
  }
  kernels::GateBwdParams p;
  p.shape = shape_of(x, choice);
  p.x = pointer(x);
  p.a_log = floats(call.saved[1]);
  p.bias = floats(call.saved[2]);
  p.grad_y = floats(grad_y);
  p.grad_x = pointer(grads[0]);
  p.grad_a_log = floats(grads[1]);
  p.grad_bias = floats(grads[2]);
  const at::Tensor workspace =
      device_bytes(kernels::gate_bwd_workspace_bytes(p), x);
  p.workspace = pointer(workspace);
  kernels::gate_bwd(p, current_stream(x));
  return grads;
}

}  // namespace

at::Tensor gate_cuda(const at::Tensor& x_given, const at::Tensor& A_log,
                     const at::Tensor& bias, const GateChoice& choice) {
  return differentiable({x_given, A_log, bias}, [&]() -> ForwardResult {
    const Tensors saved{x_given.contiguous(), contiguous(A_log),
                        contiguous(bias)};
    const at::Tensor& x = saved[0];
    const at::Tensor y = at::empty(x.sizes(), x.options().dtype(at::kFloat));
    kernels::GateFwdParams p;
    p.shape = shape_of(x, choice);
    p.x = pointer(x);
    p.a_log = floats(saved[1]);
    p.bias = floats(saved[2]);
    p.y = floats(y);
    kernels::gate_fwd(p, current_stream(x));
    return {{y}, saved, [choice](const BackwardCall& call) {
              return gate_backward(call, choice);
            }};
  })[0];
}

}  // namespace osdn::ops
