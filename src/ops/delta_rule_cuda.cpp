#include "delta_rule_cuda.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include "cuda_call.h"
#include "differentiable.h"
#include "kernels/delta_rule/delta_rule.cuh"
#include "tensor_check.h"

namespace osdn::ops {
namespace {

// Inputs in this order everywhere: q k k_write v beta g state0.
enum Input : std::size_t { kQ, kK, kKWrite, kV, kBeta, kG, kState0, kInputs };

kernels::DeltaRuleGate gate_of(const at::Tensor& g) {
  if (!g.defined()) return kernels::DeltaRuleGate::kNone;
  return g.dim() == 2 ? kernels::DeltaRuleGate::kPerHead
                      : kernels::DeltaRuleGate::kPerChannel;
}

kernels::DeltaRuleInputs kernel_inputs(const Tensors& in,
                                       const at::Tensor& cu_seqlens,
                                       bool l2_norm) {
  kernels::DeltaRuleInputs p;
  p.shape = {in[kQ].size(0), cu_seqlens.size(0) - 1, in[kQ].size(1),
             in[kV].size(1), in[kQ].size(2),         in[kV].size(2)};
  p.element = element_of(in[kQ]);
  p.gate = gate_of(in[kG]);
  p.l2_norm = l2_norm;
  p.q = pointer(in[kQ]);
  p.k = pointer(in[kK]);
  p.k_write = pointer(in[kKWrite]);
  p.v = pointer(in[kV]);
  p.beta = floats(in[kBeta]);
  p.g = floats(in[kG]);
  p.state0 = floats(in[kState0]);
  p.cu_seqlens = cu_seqlens.const_data_ptr<std::int64_t>();
  return p;
}

/// saved: the inputs, the chunk-local quantities, cu_seqlens.
Tensors delta_rule_backward(const BackwardCall& call, bool l2_norm) {
  const Tensors in(call.saved.begin(), call.saved.begin() + kInputs);
  const at::Tensor& kept = call.saved[kInputs];
  const at::Tensor& cu_seqlens = call.saved[kInputs + 1];
  const at::Tensor grad_o = call.grad_outputs[0].defined()
                                ? call.grad_outputs[0].contiguous()
                                : at::zeros_like(in[kV]);
  const at::Tensor grad_state_T = contiguous(call.grad_outputs[1]);
  Tensors grads;
  for (const at::Tensor& x : in) grads.push_back(empty_beside(x));
  kernels::DeltaRuleBwdParams p;
  p.in = kernel_inputs(in, cu_seqlens, l2_norm);
  p.in.saved = pointer(kept);
  p.grad_o = pointer(grad_o);
  p.grad_state_T = floats(grad_state_T);
  p.grad_q = pointer(grads[kQ]);
  p.grad_k = pointer(grads[kK]);
  p.grad_k_write = pointer(grads[kKWrite]);
  p.grad_v = pointer(grads[kV]);
  p.grad_beta = floats(grads[kBeta]);
  p.grad_g = floats(grads[kG]);
  p.grad_state0 = floats(grads[kState0]);
  const at::Tensor workspace =
      device_bytes(kernels::delta_rule_bwd_workspace_bytes(p), grad_o);
  p.in.workspace = pointer(workspace);
  kernels::delta_rule_bwd(p, current_stream(grad_o));
  return grads;
}

}  // namespace

DeltaRuleOutput delta_rule_cuda(const DeltaRuleInputs& given,
                                const Documents& documents,
                                const DeltaRuleSizes& sizes, bool keep) {
  const Tensors inputs{given.q,    given.k, given.k_write, given.v,
                       given.beta, given.g, given.state0};
  const Tensors out = differentiable(inputs, [&]() -> ForwardResult {
    Tensors in;
    for (const at::Tensor& x : inputs) in.push_back(contiguous(x));
    const at::Tensor cu_seqlens = documents.on(in[kQ].device());
    kernels::DeltaRuleFwdParams p{kernel_inputs(in, cu_seqlens, sizes.l2_norm)};
    const at::Tensor o = at::empty_like(in[kV]);
    const at::Tensor state_T = at::empty(
        {documents.count(), sizes.HV, sizes.K, sizes.V}, in[kBeta].options());
    at::Tensor kept;
    if (keep) kept = device_bytes(kernels::delta_rule_saved_bytes(p.in), o);
    p.in.saved = pointer(kept);
    const at::Tensor workspace =
        device_bytes(kernels::delta_rule_fwd_workspace_bytes(p), o);
    p.in.workspace = pointer(workspace);
    p.o = pointer(o);
    p.state_T = floats(state_T);
    kernels::delta_rule_fwd(p, current_stream(o));
    in.push_back(kept);
    in.push_back(cu_seqlens);
    return {{o, state_T}, in, [l2_norm = sizes.l2_norm](const BackwardCall& c) {
              return delta_rule_backward(c, l2_norm);
            }};
  });
  return {out[0], out[1]};
}

}  // namespace osdn::ops
