// One token a document from a complete state, as generating takes it: all but
// the matrix products in ops::decode_step. On the CPU that is the same
// operators in the same order with the same bits, so that what chooses the step
// and fills its inputs is one piece of code for both devices.

#include <ATen/core/grad_mode.h>

#include "osdn/layers/attention.h"
#include "osdn/ops/decode_step.h"

namespace osdn::layers {
namespace {

using config::LayerKind;
using config::Retention;

bool one_token_each(const ops::Documents& documents) {
  if (documents.count() != documents.tokens()) return false;
  for (std::int64_t n = 0; n < documents.count(); ++n) {
    if (documents.begin(n) != n) return false;
  }
  return true;
}

ops::DecodeRetention retention_of(Retention retention) {
  switch (retention) {
    case Retention::kDataDependent:
    case Retention::kPerHead:
      return ops::DecodeRetention::kSigmoid;
    case Retention::kTied:
      return ops::DecodeRetention::kTied;
    case Retention::kConstant:
      return ops::DecodeRetention::kConstant;
    case Retention::kNone:
      break;
  }
  return ops::DecodeRetention::kOne;
}

}  // namespace

bool Attention::steps_in_place() const {
  const bool silu = config_.layer != LayerKind::kDeltaNet ||
                    config_.qk_activation == config::QkActivation::kSilu;
  return config_.use_short_conv && silu && l2_norm_;
}

bool Attention::takes_decode_step(const ops::Documents& documents,
                                  const AttentionState* state,
                                  const AttentionObserver* observer) const {
  if (!state || observer || at::GradMode::is_enabled()) return false;
  if (!steps_in_place()) return false;
  const bool complete = state->state.defined() && state->conv_q.defined() &&
                        state->conv_k.defined() && state->conv_v.defined() &&
                        state->d.defined() == config_.preconditioner.enabled;
  return complete && one_token_each(documents);
}

at::Tensor Attention::decode(const Projections& p,
                             AttentionState& state) const {
  const bool kda = config_.layer == LayerKind::kKda;
  ops::DecodeStepInputs in;
  in.q = p.q;
  in.k = p.k;
  in.v = p.v;
  in.q_filter = w_.q_conv;
  in.k_filter = w_.k_conv;
  in.v_filter = w_.v_conv;
  in.beta = p.write_strength;
  in.decay = p.decay;
  in.A_log = w_.A_log;
  in.decay_bias = kda ? w_.dt_bias.view({HV_, K_}) : w_.dt_bias;
  in.retention = p.retention;
  in.retention_bias = w_.r_bias;
  in.gate = p.output_gate;
  in.norm_weight = w_.o_norm;

  ops::DecodeStepOptions options;
  options.beta_scale = config_.allow_neg_eigval ? 2 : 1;
  if (kda) options.lower_bound = config_.lower_bound;
  options.preconditioner = preconditioner_;
  if (config_.preconditioner.enabled) {
    options.retention = retention_of(config_.preconditioner.retention);
    options.retention_value = config_.preconditioner.retention_value;
  }
  options.activation =
      kda ? ops::GateActivation::kSigmoid : ops::GateActivation::kSilu;
  options.eps = config_.norm_eps;
  options.in_place = state.in_place;

  const ops::DecodeStepOutput out = ops::decode_step(
      in, {state.state, state.d, state.conv_q, state.conv_k, state.conv_v},
      options);
  state.state = out.state.state;
  state.d = out.state.d;
  state.conv_q = out.state.conv_q;
  state.conv_k = out.state.conv_k;
  state.conv_v = out.state.conv_v;
  return out.o;
}

}  // namespace osdn::layers
