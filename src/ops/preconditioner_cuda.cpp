#include "preconditioner_cuda.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "cuda_call.h"
#include "differentiable.h"
#include "kernel_options.h"
#include "kernels/preconditioner/preconditioner.cuh"
#include "osdn/ops/side_stream.h"
#include "tensor_check.h"

namespace osdn::ops {
namespace {

kernels::PreconditionerShape shape_of(const PreconditionerInputs& in,
                                      const at::Tensor& cu_seqlens,
                                      const PreconditionerOptions& options) {
  kernels::PreconditionerShape shape;
  shape.tokens = in.k.size(0);
  shape.documents = cu_seqlens.size(0) - 1;
  shape.key_heads = in.k.size(1);
  shape.value_heads = in.beta.size(1);
  shape.key_width = in.k.size(2);
  shape.element = element_of(in.k);
  shape.eta = static_cast<float>(options.eta);
  shape.box_lo = static_cast<float>(options.d_min);
  shape.box_hi = static_cast<float>(options.d_max);
  shape.beta_aware = options.beta_aware;
  shape.l2_norm = options.l2_norm;
  shape.d0_per_document = in.d0.dim() == 3;
  shape.energy = energy_of(options.norm);
  return shape;
}

/// Everything but what the forward leaves for the backward.
struct ForwardCall {
  PreconditionerInputs in;
  at::Tensor cu_seqlens;
  at::Tensor k_write;
  kernels::PreconditionerFwdParams params;

  ForwardCall(const PreconditionerInputs& given, const Documents& documents,
              const PreconditionerOptions& options)
      : in{contiguous(given.k), contiguous(given.beta), contiguous(given.r),
           contiguous(given.d0)},
        cu_seqlens(documents.on(in.k.device())) {
    params.shape = shape_of(in, cu_seqlens, options);
    k_write = at::empty(
        {params.shape.tokens, params.shape.value_heads, params.shape.key_width},
        in.k.options());
    params.cu_seqlens = cu_seqlens.const_data_ptr<std::int64_t>();
    params.k = pointer(in.k);
    params.beta = floats(in.beta);
    params.r = floats(in.r);
    params.d0 = floats(in.d0);
    params.k_write = pointer(k_write);
  }
};

/// saved: k, beta, r, d0, s, d_checkpoint, cu_seqlens.
Tensors preconditioner_backward(const BackwardCall& call,
                                const PreconditionerOptions& options) {
  const Tensors& saved = call.saved;
  const PreconditionerInputs in{saved[0], saved[1], saved[2], saved[3]};
  // The forward may have run on a side stream, and so does this then; what was
  // saved comes from both.
  keep_for_current_stream({in.k, in.beta, in.r, in.d0, saved[6]});
  kernels::PreconditionerBwdParams p;
  p.shape = shape_of(in, saved[6], options);
  const at::Tensor grad_k_write =
      call.grad_outputs[0].defined()
          ? call.grad_outputs[0].contiguous()
          : at::zeros({p.shape.tokens, p.shape.value_heads, p.shape.key_width},
                      in.k.options());
  const at::Tensor grad_d_T = contiguous(call.grad_outputs[1]);
  Tensors grads;
  for (std::size_t i = 0; i < 4; ++i) grads.push_back(empty_beside(saved[i]));
  p.cu_seqlens = saved[6].const_data_ptr<std::int64_t>();
  p.k = pointer(in.k);
  p.beta = floats(in.beta);
  p.r = floats(in.r);
  p.s = floats(saved[4]);
  p.d_checkpoint = floats(saved[5]);
  p.grad_k_write = pointer(grad_k_write);
  p.grad_d_T = floats(grad_d_T);
  p.grad_k = pointer(grads[0]);
  p.grad_beta = floats(grads[1]);
  p.grad_r = floats(grads[2]);
  p.grad_d0 = floats(grads[3]);
  p.detach = options.detach;
  const at::Tensor workspace =
      device_bytes(kernels::preconditioner_bwd_workspace_bytes(p), in.k);
  p.workspace = pointer(workspace);
  kernels::preconditioner_bwd(p, current_stream(in.k));
  return grads;
}

}  // namespace

PreconditionerOutput preconditioner_cuda(const PreconditionerInputs& given,
                                         const Documents& documents,
                                         const PreconditionerOptions& options,
                                         bool keep) {
  const Tensors out = differentiable(
      {given.k, given.beta, given.r, given.d0}, [&]() -> ForwardResult {
        ForwardCall call(given, documents, options);
        const kernels::PreconditionerShape& shape = call.params.shape;
        const at::TensorOptions fp32 = call.in.beta.options();
        const at::Tensor d_T = at::empty(
            {shape.documents, shape.value_heads, shape.key_width}, fp32);
        call.params.d_T = floats(d_T);
        at::Tensor s, d_checkpoint;
        if (keep) {
          s = at::empty({shape.tokens, shape.value_heads}, fp32);
          d_checkpoint = at::empty({kernels::preconditioner_checkpoint_rows(
                                        shape.tokens, shape.documents),
                                    shape.value_heads, shape.key_width},
                                   fp32);
          call.params.s = floats(s);
          call.params.d_checkpoint = floats(d_checkpoint);
        }
        kernels::preconditioner_fwd(call.params, current_stream(call.in.k));
        return {{call.k_write, d_T},
                {call.in.k, call.in.beta, call.in.r, call.in.d0, s,
                 d_checkpoint, call.cu_seqlens},
                [options](const BackwardCall& back) {
                  return preconditioner_backward(back, options);
                }};
      });
  return {out[0], out[1]};
}

at::Tensor preconditioner_trace_cuda(const PreconditionerInputs& in,
                                     const Documents& documents,
                                     const PreconditionerOptions& options) {
  ForwardCall call(in, documents, options);
  at::Tensor trace = at::empty(call.k_write.sizes(), call.in.beta.options());
  call.params.d_per_token = floats(trace);
  kernels::preconditioner_fwd(call.params, current_stream(trace));
  return trace;
}

}  // namespace osdn::ops
