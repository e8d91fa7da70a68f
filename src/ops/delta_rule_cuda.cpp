#include "delta_rule_cuda.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "cuda_call.h"
#include "kernels/delta_rule/delta_rule.cuh"
#include "tensor_check.h"

namespace osdn::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Inputs in this order everywhere: q k k_write v beta g state0.
enum Input : std::size_t { kQ, kK, kKWrite, kV, kBeta, kG, kState0, kInputs };

kernels::DeltaRuleGate gate_of(const at::Tensor& g) {
  if (!g.defined()) return kernels::DeltaRuleGate::kNone;
  return g.dim() == 2 ? kernels::DeltaRuleGate::kPerHead
                      : kernels::DeltaRuleGate::kPerChannel;
}

kernels::DeltaRuleInputs kernel_inputs(const variable_list& in,
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

class DeltaRuleCudaFunction
    : public torch::autograd::Function<DeltaRuleCudaFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& q,
                               const at::Tensor& k, const MaybeTensor& k_write,
                               const at::Tensor& v, const at::Tensor& beta,
                               const MaybeTensor& g, const MaybeTensor& state0,
                               const Documents& documents, bool l2_norm,
                               bool keep) {
    variable_list in;
    for (const MaybeTensor& x :
         {MaybeTensor(q), MaybeTensor(k), k_write, MaybeTensor(v),
          MaybeTensor(beta), g, state0}) {
      in.push_back(contiguous(x.value_or(at::Tensor())));
    }
    const at::Tensor cu_seqlens = documents.on(q.device());
    kernels::DeltaRuleFwdParams p{kernel_inputs(in, cu_seqlens, l2_norm)};
    const at::Tensor o = at::empty_like(in[kV]);
    const at::Tensor state_T =
        at::empty({documents.count(), p.in.shape.value_heads,
                   p.in.shape.key_width, p.in.shape.value_width},
                  in[kBeta].options());
    at::Tensor saved;
    if (keep) {
      saved = device_bytes(kernels::delta_rule_saved_bytes(p.in), o);
    }
    p.in.saved = pointer(saved);
    const at::Tensor workspace =
        device_bytes(kernels::delta_rule_fwd_workspace_bytes(p), o);
    p.in.workspace = pointer(workspace);
    p.o = pointer(o);
    p.state_T = floats(state_T);
    kernels::delta_rule_fwd(p, current_stream(o));
    if (keep) {
      in.push_back(saved);
      in.push_back(cu_seqlens);
      ctx->save_for_backward(in);
      ctx->saved_data["l2_norm"] = l2_norm;
      ctx->set_materialize_grads(false);
    }
    return {o, state_T};
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& grad_outputs) {
    variable_list in = ctx->get_saved_variables();
    const at::Tensor cu_seqlens = in.back();
    const at::Tensor saved = in[kInputs];
    in.resize(kInputs);
    const at::Tensor grad_o = grad_outputs[0].defined()
                                  ? grad_outputs[0].contiguous()
                                  : at::zeros_like(in[kV]);
    const at::Tensor grad_state_T = contiguous(grad_outputs[1]);
    variable_list grads;
    for (const at::Tensor& x : in) grads.push_back(empty_beside(x));

    kernels::DeltaRuleBwdParams p;
    p.in = kernel_inputs(in, cu_seqlens, ctx->saved_data["l2_norm"].toBool());
    p.in.saved = pointer(saved);
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
    grads.resize(kInputs + 3);  // documents, l2_norm, keep have no gradient
    return grads;
  }
};

}  // namespace

DeltaRuleOutput delta_rule_cuda(const DeltaRuleInputs& in,
                                const Documents& documents,
                                const DeltaRuleSizes& sizes, bool keep) {
  const auto out = DeltaRuleCudaFunction::apply(
      in.q, in.k, maybe(in.k_write), in.v, in.beta, maybe(in.g),
      maybe(in.state0), documents, sizes.l2_norm, keep);
  return {out[0], out[1]};
}

}  // namespace osdn::ops
