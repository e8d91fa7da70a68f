#include "osdn/ops/decode_step.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/sigmoid.h>

#include <numeric>
#include <string>
#include <vector>

#include "decode_step_cuda.h"
#include "osdn/core/error.h"
#include "osdn/ops/delta_rule.h"
#include "osdn/ops/gate.h"
#include "osdn/ops/short_conv.h"
#include "tensor_check.h"

namespace osdn::ops {
namespace {

constexpr const char* kName = "decode_step";

struct Sizes {
  std::int64_t N, H, HV, K, V, W;
};

Sizes sizes_of(const DecodeStepInputs& in, const DecodeState& state) {
  if (!in.q.defined() || in.q.dim() != 2 || !state.state.defined() ||
      state.state.dim() != 4 || !state.conv_q.defined() ||
      state.conv_q.dim() != 3) {
    throw Error(
        "decode_step: q [N, H K], S [N, HV, K, V] and conv_q [N, H K, W-1] "
        "are needed");
  }
  Sizes s{};
  s.N = in.q.size(0);
  s.HV = state.state.size(1);
  s.K = state.state.size(2);
  s.V = state.state.size(3);
  s.W = state.conv_q.size(2) + 1;
  s.H = s.K > 0 ? in.q.size(1) / s.K : 0;
  if (s.H < 1 || s.H * s.K != in.q.size(1) || s.HV < 1 || s.HV % s.H != 0) {
    throw Error("decode_step: rows of q of " + std::to_string(in.q.size(1)) +
                " channels do not fit the " + std::to_string(s.HV) +
                " value heads and " + std::to_string(s.K) +
                " key channels of S");
  }
  return s;
}

void check_gates(const Sizes& s, const DecodeStepInputs& in,
                 const DecodeStepOptions& options) {
  const std::vector<std::int64_t> heads{s.N, s.HV};
  if (in.beta.defined()) check_tensor(kName, "beta", in.beta, heads, in.q);
  if (in.decay.defined()) {
    const bool channels = in.decay.dim() == 3;
    const std::vector<std::int64_t> columns =
        channels ? std::vector<std::int64_t>{s.HV, s.K}
                 : std::vector<std::int64_t>{s.HV};
    check_tensor(kName, "decay", in.decay,
                 channels ? std::vector<std::int64_t>{s.N, s.HV, s.K} : heads,
                 in.q);
    check_control(kName, "A_log", in.A_log, {s.HV}, in.q);
    check_control(kName, "decay_bias", in.decay_bias, columns, in.q);
  }
  const bool given = in.retention.defined() || in.retention_bias.defined();
  if (given != (options.retention == DecodeRetention::kSigmoid)) {
    throw Error(
        "decode_step: logits or a bias of r are given exactly when r is their "
        "sigmoid");
  }
  if (in.retention.defined()) {
    check_tensor(kName, "retention", in.retention, heads, in.q);
  }
  if (in.retention_bias.defined()) {
    check_control(kName, "retention_bias", in.retention_bias, {s.HV}, in.q);
  }
  if (options.retention == DecodeRetention::kTied &&
      !(in.decay.defined() && in.decay.dim() == 2)) {
    throw Error("decode_step: r tied to the decay needs a decay [N, HV]");
  }
}

void check_inputs(const Sizes& s, const DecodeStepInputs& in,
                  const DecodeState& state, const DecodeStepOptions& options) {
  const std::int64_t keys = s.H * s.K, values = s.HV * s.V;
  check_computable(kName, in.q);
  check_tensor(kName, "k", in.k, {s.N, keys}, in.q);
  check_tensor(kName, "v", in.v, {s.N, values}, in.q);
  check_control(kName, "q_filter", in.q_filter, {keys, 1, s.W}, in.q);
  check_control(kName, "k_filter", in.k_filter, {keys, 1, s.W}, in.q);
  check_control(kName, "v_filter", in.v_filter, {values, 1, s.W}, in.q);
  check_tensor(kName, "conv_q", state.conv_q, {s.N, keys, s.W - 1}, in.q);
  check_tensor(kName, "conv_k", state.conv_k, {s.N, keys, s.W - 1}, in.q);
  check_tensor(kName, "conv_v", state.conv_v, {s.N, values, s.W - 1}, in.q);
  check_control(kName, "S", state.state, {s.N, s.HV, s.K, s.V}, in.q);
  if (state.d.defined()) {
    check_control(kName, "d", state.d, {s.N, s.HV, s.K}, in.q);
  }
  check_gates(s, in, options);
  if (in.gate.defined()) {
    check_tensor(kName, "gate", in.gate, {s.N, values}, in.q);
  }
  check_control(kName, "norm_weight", in.norm_weight, {s.V}, in.q);
}

at::Tensor decay_of(const DecodeStepInputs& in,
                    const DecodeStepOptions& options) {
  if (!in.decay.defined()) return {};
  return options.lower_bound
             ? bounded_decay(in.decay, in.A_log, in.decay_bias,
                             *options.lower_bound)
             : softplus_decay(in.decay, in.A_log, in.decay_bias);
}

at::Tensor retention_of(const DecodeStepInputs& in,
                        const DecodeStepOptions& options, const at::Tensor& g,
                        const at::Tensor& beta) {
  switch (options.retention) {
    case DecodeRetention::kSigmoid:
      if (in.retention.defined()) {
        return sigmoid_gate(in.retention, in.retention_bias);
      }
      return at::sigmoid(in.retention_bias).expand_as(beta).contiguous();
    case DecodeRetention::kTied:
      return at::exp(g);
    case DecodeRetention::kConstant:
      return at::full_like(beta, options.retention_value);
    case DecodeRetention::kOne:
      break;
  }
  return {};
}

/// The step as the operators do it, a document a token.
DecodeStepOutput composed(const Sizes& s, const DecodeStepInputs& in,
                          const DecodeState& state,
                          const DecodeStepOptions& options) {
  std::vector<std::int64_t> cu_seqlens(static_cast<std::size_t>(s.N) + 1);
  std::iota(cu_seqlens.begin(), cu_seqlens.end(), 0);
  const Documents documents(std::move(cu_seqlens));
  DecodeStepOutput out;
  const auto convolved = [&](const at::Tensor& x, const at::Tensor& filter,
                             const at::Tensor& past, at::Tensor& past_out) {
    const ShortConvOutput y = short_conv({x, filter, past}, documents);
    past_out = y.state_T;
    return y.y;
  };
  const at::Tensor q =
      convolved(in.q, in.q_filter, state.conv_q, out.state.conv_q)
          .view({s.N, s.H, s.K});
  const at::Tensor k =
      convolved(in.k, in.k_filter, state.conv_k, out.state.conv_k)
          .view({s.N, s.H, s.K});
  const at::Tensor v =
      convolved(in.v, in.v_filter, state.conv_v, out.state.conv_v)
          .view({s.N, s.HV, s.V});
  const at::Tensor beta = in.beta.defined()
                              ? sigmoid_gate(in.beta, {}, options.beta_scale)
                              : at::ones({s.N, s.HV}, state.state.options());
  const at::Tensor g = decay_of(in, options);
  at::Tensor k_write;
  if (state.d.defined()) {
    const at::Tensor r = retention_of(in, options, g, beta);
    PreconditionerOptions rule = options.preconditioner;
    rule.l2_norm = true;
    const PreconditionerOutput scaled =
        preconditioner({k, beta, r, state.d}, documents, rule);
    k_write = scaled.k_write;
    out.state.d = scaled.d_T;
  }
  const DeltaRuleOutput written =
      delta_rule({q, k, k_write, v, beta, g, state.state}, documents);
  out.state.state = written.state_T;
  out.o = gated_rms_norm(written.o, in.gate, in.norm_weight, options.activation,
                         options.eps)
              .view({s.N, s.HV * s.V});
  return out;
}

/// The given tensor takes the new values, if it has not got them, and stands
/// for them.
void put_back(at::Tensor& value, const at::Tensor& given) {
  if (!value.defined()) return;
  at::Tensor place = given;
  if (value.data_ptr() != given.data_ptr()) place.copy_(value);
  value = place;
}

}  // namespace

DecodeStepOutput decode_step(const DecodeStepInputs& in,
                             const DecodeState& state,
                             const DecodeStepOptions& options) {
  if (wants_gradient({in.q, in.k, in.v, in.q_filter, in.k_filter, in.v_filter,
                      in.beta, in.decay, in.A_log, in.decay_bias, in.retention,
                      in.retention_bias, in.gate, in.norm_weight, state.state,
                      state.d, state.conv_q, state.conv_k, state.conv_v})) {
    throw Error(
        "decode_step: it has no gradient; turn gradients off around it, or "
        "call the separate operators");
  }
  const Sizes sizes = sizes_of(in, state);
  check_inputs(sizes, in, state, options);
  DecodeStepOutput out = in.q.is_cuda() ? decode_step_cuda(in, state, options)
                                        : composed(sizes, in, state, options);
  if (options.in_place) {
    put_back(out.state.state, state.state);
    put_back(out.state.d, state.d);
    put_back(out.state.conv_q, state.conv_q);
    put_back(out.state.conv_k, state.conv_k);
    put_back(out.state.conv_v, state.conv_v);
  }
  return out;
}

}  // namespace osdn::ops
