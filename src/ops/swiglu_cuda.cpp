#include "swiglu_cuda.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>

#include "cuda_call.h"
#include "differentiable.h"
#include "kernels/swiglu/swiglu.cuh"

namespace osdn::ops {
namespace {

/// saved: x, gate, up, down, x gate^T, x up^T. One node for the whole: the
/// gradient of x from both projections is summed in the second product, and no
/// pass over [T, h] is spent on it.
Tensors mlp_backward(const BackwardCall& call) {
  const at::Tensor& x = call.saved[0];
  const at::Tensor& a = call.saved[4];
  const at::Tensor& b = call.saved[5];
  const at::Tensor grad_out = call.grad_outputs[0].contiguous();
  const at::Tensor grad_y = at::mm(grad_out, call.saved[3]);
  const at::Tensor grad_a = at::empty_like(a);
  const at::Tensor grad_b = at::empty_like(b);
  const at::Tensor y = at::empty_like(a);
  kernels::SwigluBwdParams p;
  p.rows = a.size(0);
  p.width = a.size(1);
  p.element = element_of(a);
  p.gate = pointer(a);
  p.up = pointer(b);
  p.grad_y = pointer(grad_y);
  p.grad_gate = pointer(grad_a);
  p.grad_up = pointer(grad_b);
  p.y = pointer(y);
  kernels::swiglu_bwd(p, current_stream(a));
  at::Tensor grad_x;
  if (call.needed[0]) {
    grad_x = at::mm(grad_a, call.saved[1]);
    grad_x.addmm_(grad_b, call.saved[2]);
  }
  return {grad_x, at::mm(grad_a.t(), x), at::mm(grad_b.t(), x),
          at::mm(grad_out.t(), y)};
}

}  // namespace

at::Tensor swiglu_mlp_cuda(const at::Tensor& x, const at::Tensor& gate,
                           const at::Tensor& up, const at::Tensor& down) {
  return differentiable({x, gate, up, down}, [&]() -> ForwardResult {
    const at::Tensor a = at::mm(x, gate.t());
    const at::Tensor b = at::mm(x, up.t());
    const at::Tensor y = at::empty_like(a);
    kernels::SwigluFwdParams p;
    p.rows = a.size(0);
    p.width = a.size(1);
    p.element = element_of(a);
    p.gate = pointer(a);
    p.up = pointer(b);
    p.y = pointer(y);
    kernels::swiglu_fwd(p, current_stream(a));
    return {{at::mm(y, down.t())}, {x, gate, up, down, a, b}, mlp_backward};
  })[0];
}

}  // namespace osdn::ops
