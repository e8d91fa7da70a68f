#include "osdn/ops/delta_rule.h"

#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include "chunks.h"
#include "delta_rule_cpu.h"
#include "delta_rule_cuda.h"
#include "differentiable.h"
#include "osdn/core/error.h"
#include "tensor_check.h"

namespace osdn::ops {
namespace {

constexpr const char* kName = "delta_rule";

DeltaRuleSizes check_inputs(const DeltaRuleInputs& in, const Documents& docs,
                            const DeltaRuleOptions& options) {
  if (!in.q.defined() || in.q.dim() != 3 || !in.v.defined() ||
      in.v.dim() != 3) {
    throw Error("delta_rule: q [T, H, K] and v [T, HV, V] are needed");
  }
  check_computable(kName, in.q);
  DeltaRuleSizes s;
  const std::int64_t T = in.q.size(0);
  s.H = in.q.size(1);
  s.K = in.q.size(2);
  s.HV = in.v.size(1);
  s.V = in.v.size(2);
  s.l2_norm = options.l2_norm;
  if (s.H < 1 || s.K < 1 || s.V < 1 || s.HV % s.H != 0 || s.HV < 1) {
    throw Error("delta_rule: the " + std::to_string(s.HV) +
                " value heads must be a multiple of the " +
                std::to_string(s.H) + " key heads, and no width may be 0");
  }
  if (docs.tokens() != T) {
    throw Error("delta_rule: cu_seqlens ends at " +
                std::to_string(docs.tokens()) + ", q has " + std::to_string(T) +
                " tokens");
  }
  check_tensor(kName, "k", in.k, {T, s.H, s.K}, in.q);
  check_tensor(kName, "v", in.v, {T, s.HV, s.V}, in.q);
  check_control(kName, "beta", in.beta, {T, s.HV}, in.q);
  if (in.k_write.defined()) {
    check_tensor(kName, "k_write", in.k_write, {T, s.HV, s.K}, in.q);
  }
  if (in.g.defined()) {
    s.gate = in.g.dim() == 2 ? GateKind::kHead : GateKind::kChannel;
    if (s.gate == GateKind::kHead) {
      check_control(kName, "g", in.g, {T, s.HV}, in.q);
    } else {
      check_control(kName, "g", in.g, {T, s.HV, s.K}, in.q);
    }
  }
  if (in.state0.defined()) {
    check_control(kName, "state0", in.state0, {docs.count(), s.HV, s.K, s.V},
                  in.q);
  }
  return s;
}

template <typename T>
DeltaRuleForward<T> forward_pointers(const Tensors& in) {
  return {data_or_null<T>(in[0]),
          data_or_null<T>(in[1]),
          data_or_null<T>(in[2]),
          data_or_null<T>(in[3]),
          data_or_null<T>(in[4]),
          data_or_null<T>(in[5]),
          data_or_null<T>(in[6]),
          nullptr,
          nullptr,
          nullptr,
          nullptr};
}

// Inputs in this order everywhere: q k k_write v beta g state0.
constexpr std::size_t kInputs = 7;

/// saved: the inputs, the states at the chunks' starts, u.
Tensors delta_rule_backward(const BackwardCall& call,
                            const Documents& documents,
                            const DeltaRuleSizes& sizes) {
  const Tensors& in = call.saved;
  const at::Tensor grad_o = call.grad_outputs[0].defined()
                                ? call.grad_outputs[0].contiguous()
                                : at::zeros_like(in[3]);
  const at::Tensor grad_state_T = contiguous(call.grad_outputs[1]);
  Tensors grads;
  for (std::size_t i = 0; i < kInputs; ++i) {
    grads.push_back(in[i].defined() ? at::empty_like(in[i]) : at::Tensor());
  }
  AT_DISPATCH_FLOATING_TYPES(grad_o.scalar_type(), kName, [&] {
    auto data = forward_pointers<scalar_t>(in);
    data.states = in[kInputs].data_ptr<scalar_t>();
    data.u = in[kInputs + 1].data_ptr<scalar_t>();
    const DeltaRuleBackward<scalar_t> out{
        grad_o.data_ptr<scalar_t>(),      data_or_null<scalar_t>(grad_state_T),
        data_or_null<scalar_t>(grads[0]), data_or_null<scalar_t>(grads[1]),
        data_or_null<scalar_t>(grads[2]), data_or_null<scalar_t>(grads[3]),
        data_or_null<scalar_t>(grads[4]), data_or_null<scalar_t>(grads[5]),
        data_or_null<scalar_t>(grads[6])};
    delta_rule_backward_cpu<scalar_t>(sizes, documents, data, out);
  });
  return grads;
}

ForwardResult delta_rule_forward(const Tensors& inputs,
                                 const Documents& documents,
                                 const DeltaRuleSizes& sizes, bool keep) {
  Tensors in;
  for (const at::Tensor& x : inputs) in.push_back(contiguous(x));
  const at::Tensor o = at::empty_like(in[3]);
  const at::Tensor state_T = at::empty(
      {documents.count(), sizes.HV, sizes.K, sizes.V}, in[3].options());
  at::Tensor states, u;
  if (keep) {
    states = at::empty({count_chunks(documents), sizes.HV, sizes.K, sizes.V},
                       in[3].options());
    u = at::empty_like(in[3]);
  }
  AT_DISPATCH_FLOATING_TYPES(o.scalar_type(), kName, [&] {
    auto data = forward_pointers<scalar_t>(in);
    data.o = o.data_ptr<scalar_t>();
    data.state_T = state_T.data_ptr<scalar_t>();
    data.states = data_or_null<scalar_t>(states);
    data.u = data_or_null<scalar_t>(u);
    delta_rule_forward_cpu<scalar_t>(sizes, documents, data);
  });
  in.push_back(states);
  in.push_back(u);
  return {{o, state_T},
          keep ? in : Tensors(),
          [documents, sizes](const BackwardCall& call) {
            return delta_rule_backward(call, documents, sizes);
          }};
}

}  // namespace

DeltaRuleOutput delta_rule(const DeltaRuleInputs& in,
                           const Documents& documents,
                           const DeltaRuleOptions& options) {
  const DeltaRuleSizes sizes = check_inputs(in, documents, options);
  const bool keep =
      wants_gradient({in.q, in.k, in.k_write, in.v, in.beta, in.g, in.state0});
  if (in.q.is_cuda()) return delta_rule_cuda(in, documents, sizes, keep);
  const Tensors inputs{in.q, in.k, in.k_write, in.v, in.beta, in.g, in.state0};
  const Tensors out = differentiable(inputs, [&] {
    return delta_rule_forward(inputs, documents, sizes, keep);
  });
  return {out[0], out[1]};
}

}  // namespace osdn::ops
