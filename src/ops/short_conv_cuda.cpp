#include "short_conv_cuda.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include "cuda_call.h"
#include "differentiable.h"
#include "kernels/short_conv/short_conv.cuh"
#include "tensor_check.h"

namespace osdn::ops {
namespace {

/// The kernels keep a state as [N, W-1, C], the interface as [N, C, W-1].
at::Tensor swapped(const at::Tensor& state) {
  return state.defined() ? state.transpose(1, 2).contiguous() : state;
}

kernels::ShortConvShape shape_of(const at::Tensor& x, const at::Tensor& weight,
                                 const at::Tensor& cu_seqlens, bool silu) {
  kernels::ShortConvShape shape;
  shape.tokens = x.size(0);
  shape.documents = cu_seqlens.size(0) - 1;
  shape.channels = x.size(1);
  shape.width = static_cast<int>(weight.size(2));
  shape.silu = silu;
  shape.element = element_of(x);
  return shape;
}

/// saved: x, weight, state (swapped), cu_seqlens.
Tensors conv_backward(const BackwardCall& call, bool silu) {
  const Tensors& saved = call.saved;
  const at::Tensor& x = saved[0];
  const at::Tensor grad_y = call.grad_outputs[0].defined()
                                ? call.grad_outputs[0].contiguous()
                                : at::zeros_like(x);
  const at::Tensor grad_state_T = swapped(call.grad_outputs[1]);
  const at::Tensor grad_x = empty_beside(x);
  const at::Tensor grad_weight = empty_beside(saved[1]);
  const at::Tensor grad_state = empty_beside(saved[2]);
  kernels::ShortConvBwdParams p;
  p.shape = shape_of(x, saved[1], saved[3], silu);
  p.cu_seqlens = saved[3].const_data_ptr<std::int64_t>();
  p.x = pointer(x);
  p.weight = floats(saved[1]);
  p.state_in = pointer(saved[2]);
  p.grad_y = pointer(grad_y);
  p.grad_state_out = pointer(grad_state_T);
  p.grad_x = pointer(grad_x);
  p.grad_weight = floats(grad_weight);
  p.grad_state_in = pointer(grad_state);
  const at::Tensor workspace =
      device_bytes(kernels::short_conv_bwd_workspace_bytes(p), x);
  p.workspace = pointer(workspace);
  kernels::short_conv_bwd(p, current_stream(x));
  return {grad_x, grad_weight, swapped(grad_state)};
}

}  // namespace

ShortConvOutput short_conv_cuda(const ShortConvInputs& in,
                                const Documents& documents, bool silu) {
  const Tensors out =
      differentiable({in.x, in.weight, in.state0}, [&]() -> ForwardResult {
        const at::Tensor x = in.x.contiguous();
        const at::Tensor weight = in.weight.contiguous();
        const at::Tensor state = swapped(in.state0);
        const at::Tensor cu_seqlens = documents.on(x.device());
        const at::Tensor y = at::empty_like(x);
        const at::Tensor state_T = at::empty(
            {documents.count(), weight.size(2) - 1, x.size(1)}, x.options());
        kernels::ShortConvFwdParams p;
        p.shape = shape_of(x, weight, cu_seqlens, silu);
        p.cu_seqlens = cu_seqlens.const_data_ptr<std::int64_t>();
        p.x = pointer(x);
        p.weight = floats(weight);
        p.state_in = pointer(state);
        p.y = pointer(y);
        p.state_out = pointer(state_T);
        kernels::short_conv_fwd(p, current_stream(x));
        return {{y, state_T.transpose(1, 2)},
                {x, weight, state, cu_seqlens},
                [silu](const BackwardCall& call) {
                  return conv_backward(call, silu);
                }};
      });
  return {out[0], out[1]};
}

}  // namespace osdn::ops
