#include "osdn/ops/preconditioner.h"

#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include "chunks.h"
#include "differentiable.h"
#include "osdn/core/error.h"
#include "preconditioner_cpu.h"
#include "preconditioner_cuda.h"
#include "tensor_check.h"

namespace osdn::ops {
namespace {

constexpr const char* kName = "preconditioner";

PreconditionerSizes check_inputs(const PreconditionerInputs& in,
                                 const Documents& documents) {
  if (!in.k.defined() || in.k.dim() != 3 || !in.beta.defined() ||
      in.beta.dim() != 2) {
    throw Error("preconditioner: k [T, H, K] and beta [T, HV] are needed");
  }
  check_computable(kName, in.k);
  const std::int64_t T = in.k.size(0);
  PreconditionerSizes s;
  s.H = in.k.size(1);
  s.K = in.k.size(2);
  s.HV = in.beta.size(1);
  if (s.H < 1 || s.K < 1 || s.HV < 1 || s.HV % s.H != 0) {
    throw Error("preconditioner: the " + std::to_string(s.HV) +
                " value heads must be a multiple of the " +
                std::to_string(s.H) + " key heads, and no width may be 0");
  }
  if (documents.tokens() != T) {
    throw Error("preconditioner: cu_seqlens ends at " +
                std::to_string(documents.tokens()) + ", k has " +
                std::to_string(T) + " tokens");
  }
  check_control(kName, "beta", in.beta, {T, s.HV}, in.k);
  if (in.r.defined()) check_control(kName, "r", in.r, {T, s.HV}, in.k);
  s.d0_per_document = in.d0.defined() && in.d0.dim() == 3;
  if (s.d0_per_document) {
    check_control(kName, "d0", in.d0, {documents.count(), s.HV, s.K}, in.k);
  } else {
    check_control(kName, "d0", in.d0, {s.HV, s.K}, in.k);
  }
  return s;
}

template <typename T>
PreconditionerForward<T> input_pointers(const PreconditionerInputs& in) {
  PreconditionerForward<T> data{};
  data.k = in.k.data_ptr<T>();
  data.beta = in.beta.data_ptr<T>();
  data.r = data_or_null<T>(in.r);
  data.d0 = in.d0.data_ptr<T>();
  return data;
}

PreconditionerInputs contiguous(const PreconditionerInputs& in) {
  return {ops::contiguous(in.k), ops::contiguous(in.beta),
          ops::contiguous(in.r), ops::contiguous(in.d0)};
}

/// saved: k, beta, r, d0, d at the chunks' starts.
Tensors preconditioner_backward(const BackwardCall& call,
                                const Documents& documents,
                                const PreconditionerSizes& sizes,
                                const PreconditionerOptions& options) {
  const PreconditionerInputs in{call.saved[0], call.saved[1], call.saved[2],
                                call.saved[3]};
  const std::int64_t T = in.k.size(0);
  const at::Tensor grad_k_write =
      call.grad_outputs[0].defined()
          ? call.grad_outputs[0].contiguous()
          : at::zeros({T, sizes.HV, sizes.K}, in.k.options());
  const at::Tensor grad_d_T = ops::contiguous(call.grad_outputs[1]);
  at::Tensor grad_k = at::empty({T, sizes.HV, sizes.K}, in.k.options());
  const at::Tensor grad_beta = at::empty_like(in.beta);
  const at::Tensor grad_r =
      in.r.defined() ? at::empty_like(in.r) : at::Tensor();
  at::Tensor grad_d0 =
      at::empty({documents.count(), sizes.HV, sizes.K}, in.k.options());
  AT_DISPATCH_FLOATING_TYPES(in.k.scalar_type(), kName, [&] {
    auto data = input_pointers<scalar_t>(in);
    data.d_chunks = call.saved[4].data_ptr<scalar_t>();
    const PreconditionerBackward<scalar_t> out{
        grad_k_write.data_ptr<scalar_t>(), data_or_null<scalar_t>(grad_d_T),
        grad_k.data_ptr<scalar_t>(),       grad_beta.data_ptr<scalar_t>(),
        data_or_null<scalar_t>(grad_r),    grad_d0.data_ptr<scalar_t>()};
    preconditioner_backward_cpu<scalar_t>(sizes, options, documents, data, out);
  });
  if (sizes.HV != sizes.H) {
    grad_k = grad_k.view({T, sizes.H, sizes.HV / sizes.H, sizes.K}).sum(2);
  }
  if (!sizes.d0_per_document) grad_d0 = grad_d0.sum(0);
  return {grad_k, grad_beta, grad_r, grad_d0};
}

ForwardResult preconditioner_forward(const PreconditionerInputs& given,
                                     const Documents& documents,
                                     const PreconditionerSizes& sizes,
                                     const PreconditionerOptions& options) {
  const PreconditionerInputs in = contiguous(given);
  const at::Tensor k_write =
      at::empty({in.k.size(0), sizes.HV, sizes.K}, in.k.options());
  const at::Tensor d_T =
      at::empty({documents.count(), sizes.HV, sizes.K}, in.k.options());
  const at::Tensor d_chunks =
      at::empty({count_chunks(documents), sizes.HV, sizes.K}, in.k.options());
  AT_DISPATCH_FLOATING_TYPES(in.k.scalar_type(), kName, [&] {
    auto data = input_pointers<scalar_t>(in);
    data.k_write = k_write.data_ptr<scalar_t>();
    data.d_T = d_T.data_ptr<scalar_t>();
    data.d_chunks = d_chunks.data_ptr<scalar_t>();
    preconditioner_forward_cpu<scalar_t>(sizes, options, documents, data);
  });
  return {{k_write, d_T},
          {in.k, in.beta, in.r, in.d0, d_chunks},
          [documents, sizes, options](const BackwardCall& call) {
            return preconditioner_backward(call, documents, sizes, options);
          }};
}

}  // namespace

PreconditionerOutput preconditioner(const PreconditionerInputs& in,
                                    const Documents& documents,
                                    const PreconditionerOptions& options) {
  const PreconditionerSizes sizes = check_inputs(in, documents);
  const Tensors inputs{in.k, in.beta, in.r, in.d0};
  if (in.k.is_cuda()) {
    return preconditioner_cuda(in, documents, options,
                               wants_gradient({in.k, in.beta, in.r, in.d0}));
  }
  const Tensors out = differentiable(inputs, [&] {
    return preconditioner_forward(in, documents, sizes, options);
  });
  return {out[0], out[1]};
}

at::Tensor preconditioner_trace(const PreconditionerInputs& inputs,
                                const Documents& documents,
                                const PreconditionerOptions& options) {
  const at::NoGradGuard no_grad;
  const PreconditionerInputs in = contiguous(inputs);
  const PreconditionerSizes sizes = check_inputs(in, documents);
  if (in.k.is_cuda()) {
    return preconditioner_trace_cuda(in, documents, options);
  }
  at::Tensor trace =
      at::empty({in.k.size(0), sizes.HV, sizes.K}, in.k.options());
  AT_DISPATCH_FLOATING_TYPES(in.k.scalar_type(), kName, [&] {
    auto data = input_pointers<scalar_t>(in);
    data.d_trace = trace.data_ptr<scalar_t>();
    preconditioner_forward_cpu<scalar_t>(sizes, options, documents, data);
  });
  return trace;
}

}  // namespace osdn::ops
