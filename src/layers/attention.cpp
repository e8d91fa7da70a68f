#include "osdn/layers/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>

#include <optional>
#include <vector>

#include "osdn/ops/delta_rule.h"
#include "osdn/ops/gate.h"
#include "osdn/ops/norm.h"
#include "osdn/ops/project.h"
#include "osdn/ops/short_conv.h"
#include "osdn/ops/side_stream.h"

namespace osdn::layers {
namespace {

using config::LayerKind;
using config::QkActivation;
using config::QkNorm;
using config::Retention;

ops::PreconditionerNorm norm_of(config::KeyNorm norm) {
  switch (norm) {
    case config::KeyNorm::kOff:
      return ops::PreconditionerNorm::kOff;
    case config::KeyNorm::kAdd:
      return ops::PreconditionerNorm::kAdd;
    case config::KeyNorm::kFloor:
      break;
  }
  return ops::PreconditionerNorm::kFloor;
}

ops::PreconditionerOptions options_of(const config::PreconditionerConfig& c,
                                      bool l2_norm) {
  ops::PreconditionerOptions options;
  options.eta = c.eta;
  options.d_min = c.d_min;
  options.d_max = c.d_max;
  options.beta_aware = c.beta_aware;
  options.norm = norm_of(c.norm);
  options.detach = c.detach;
  options.l2_norm = l2_norm;
  return options;
}

/// qk_activation after a convolution that has none of its own.
at::Tensor activate(const at::Tensor& x, QkActivation activation) {
  switch (activation) {
    case QkActivation::kSilu:
      return at::silu(x);
    case QkActivation::kRelu:
      return at::relu(x);
    case QkActivation::kElu:
      return at::elu(x) + 1;
    case QkActivation::kIdentity:
      break;
  }
  return x;
}

at::Tensor sum_norm(const at::Tensor& x) {
  return x / x.sum(-1, /*keepdim=*/true);
}

}  // namespace

Attention::Attention(const config::ModelConfig& config, std::int64_t layer,
                     const ParameterSource& parameters)
    : config_(config),
      layer_(layer),
      H_(config.num_heads),
      HV_(config.value_heads()),
      K_(config.key_width()),
      V_(config.value_width()),
      l2_norm_(config.layer != LayerKind::kDeltaNet ||
               config.qk_norm == QkNorm::kL2) {
  preconditioner_ = options_of(config.preconditioner, l2_norm_);
  const std::string prefix = "model.layers." + std::to_string(layer) + ".attn.";
  const auto get = [&](const char* name) {
    return parameters.get(prefix + name);
  };
  w_.q_proj = get("q_proj.weight");
  w_.k_proj = get("k_proj.weight");
  w_.v_proj = get("v_proj.weight");
  w_.o_proj = get("o_proj.weight");
  w_.o_norm = get("o_norm.weight");
  const bool learned_beta =
      config.layer != LayerKind::kDeltaNet || config.use_beta;
  if (learned_beta) w_.b_proj = get("b_proj.weight");
  if (config.use_short_conv) {
    w_.q_conv = get("q_conv1d.weight");
    w_.k_conv = get("k_conv1d.weight");
    w_.v_conv = get("v_conv1d.weight");
  }
  if (config.layer == LayerKind::kKda) {
    w_.f_proj_down = get("f_proj.0.weight");
    w_.f_proj_up = get("f_proj.1.weight");
    w_.g_proj_down = get("g_proj.0.weight");
    w_.g_proj_up = get("g_proj.1.weight");
    w_.g_proj_bias = get("g_proj.1.bias");
  } else if (config.output_gate()) {
    w_.g_proj = get("g_proj.weight");
  }
  if (config.layer == LayerKind::kGdn) w_.a_proj = get("a_proj.weight");
  if (config.layer != LayerKind::kDeltaNet) {
    w_.A_log = get("A_log");
    w_.dt_bias = get("dt_bias");
  }
  if (config.preconditioner.enabled) {
    w_.d0 = get("initial_scale");
    if (config.preconditioner.retention == Retention::kDataDependent) {
      w_.r_proj = get("osgm_a_proj.weight");
      w_.r_bias = get("osgm_a_proj.bias");
    } else if (config.preconditioner.retention == Retention::kPerHead) {
      w_.r_bias = get("osgm_gamma_log");
    }
  }
}

at::Tensor Attention::convolve(const at::Tensor& x, const at::Tensor& weight,
                               const ops::Documents& documents, bool silu,
                               at::Tensor* state) const {
  const at::Tensor start = state ? *state : at::Tensor();
  const ops::ShortConvOutput out =
      ops::short_conv({x, weight, start}, documents, silu);
  if (state) *state = out.state_T;
  return out.y;
}

at::Tensor Attention::query_or_key(const at::Tensor& x,
                                   const at::Tensor& filter,
                                   const ops::Documents& documents,
                                   at::Tensor* state) const {
  const QkActivation activation = config_.layer == LayerKind::kDeltaNet
                                      ? config_.qk_activation
                                      : QkActivation::kSilu;
  const bool fused =
      config_.use_short_conv && activation == QkActivation::kSilu;
  at::Tensor y = x;
  if (config_.use_short_conv) y = convolve(y, filter, documents, fused, state);
  if (!fused) y = activate(y, activation);
  y = y.view({x.size(0), H_, K_});
  return l2_norm_ ? y : sum_norm(y);
}

at::Tensor Attention::value(const at::Tensor& x,
                            const ops::Documents& documents,
                            at::Tensor* state) const {
  const at::Tensor y = config_.use_short_conv
                           ? convolve(x, w_.v_conv, documents, true, state)
                           : at::silu(x);
  return y.view({x.size(0), HV_, V_});
}

void Attention::project(const at::Tensor& x, Products products,
                        Projections& p) const {
  const bool kda = config_.layer == LayerKind::kKda;
  std::vector<at::Tensor> weights;
  std::vector<at::Tensor*> targets;
  const auto add = [&](const at::Tensor& weight, at::Tensor& target) {
    if (!weight.defined()) return;
    weights.push_back(weight);
    targets.push_back(&target);
  };
  if (products != Products::kRest) {
    add(w_.k_proj, p.k);
    add(w_.b_proj, p.write_strength);
    add(kda ? w_.f_proj_down : w_.a_proj, p.decay);
    add(w_.r_proj, p.retention);
  }
  if (products != Products::kForKeys) {
    add(w_.q_proj, p.q);
    add(w_.v_proj, p.v);
    add(kda ? w_.g_proj_down : w_.g_proj, p.output_gate);
  }
  const std::vector<at::Tensor> values = ops::project(x, weights);
  for (std::size_t i = 0; i < values.size(); ++i) *targets[i] = values[i];
  if (kda && products != Products::kRest) {
    p.decay = at::linear(p.decay, w_.f_proj_up).view({x.size(0), HV_, K_});
  }
  if (kda && products != Products::kForKeys) {
    p.output_gate = at::linear(p.output_gate, w_.g_proj_up, w_.g_proj_bias);
  }
}

at::TensorOptions Attention::control_options() const {
  return w_.o_norm.options().requires_grad(false);
}

at::Tensor Attention::write_strength(const Projections& p) const {
  if (!p.write_strength.defined()) {
    return at::ones({p.k.size(0), HV_}, control_options());
  }
  return ops::sigmoid_gate(p.write_strength, {},
                           config_.allow_neg_eigval ? 2 : 1);
}

at::Tensor Attention::decay(const Projections& p) const {
  switch (config_.layer) {
    case LayerKind::kGdn:
      return ops::softplus_decay(p.decay, w_.A_log, w_.dt_bias);
    case LayerKind::kKda: {
      const at::Tensor bias = w_.dt_bias.view({HV_, K_});
      return config_.lower_bound ? ops::bounded_decay(p.decay, w_.A_log, bias,
                                                      *config_.lower_bound)
                                 : ops::softplus_decay(p.decay, w_.A_log, bias);
    }
    default:
      return {};
  }
}

at::Tensor Attention::retention(const Projections& p,
                                const at::Tensor& g) const {
  const std::int64_t T = p.k.size(0);
  switch (config_.preconditioner.retention) {
    case Retention::kDataDependent:
      return ops::sigmoid_gate(p.retention, w_.r_bias);
    case Retention::kTied:
      return at::exp(g);
    case Retention::kConstant:
      return at::full({T, HV_}, config_.preconditioner.retention_value,
                      control_options());
    case Retention::kPerHead:
      return at::sigmoid(w_.r_bias).expand({T, HV_}).contiguous();
    case Retention::kNone:
      break;
  }
  return {};
}

at::Tensor Attention::forward(const at::Tensor& x,
                              const ops::Documents& documents,
                              AttentionState* state,
                              AttentionObserver* observer) const {
  Projections p;
  if (takes_decode_step(documents, state, observer)) {
    project(x, Products::kAll, p);
    return at::linear(decode(p, *state), w_.o_proj);
  }
  // The recurrence of d has few chains and long ones: it runs on a stream of
  // its own beside the products that it does not need. Its node comes before
  // theirs so that the backward, which goes from the last to the first, queues
  // theirs first and runs beside them too.
  const bool preconditioned = config_.preconditioner.enabled;
  project(x, preconditioned ? Products::kForKeys : Products::kAll, p);
  const at::Tensor k =
      query_or_key(p.k, w_.k_conv, documents, state ? &state->conv_k : nullptr);
  const at::Tensor beta = write_strength(p);
  const at::Tensor g = decay(p);
  at::Tensor r, d0;
  ops::PreconditionerOutput scaled;
  std::optional<ops::SideStream> side;
  if (preconditioned) {
    r = retention(p, g);
    d0 = state && state->d.defined() ? state->d : w_.d0;
    side.emplace(x.device(), std::initializer_list<at::Tensor>{k, beta, r, d0});
    scaled = ops::preconditioner({k, beta, r, d0}, documents, preconditioner_);
    side->leave();
    project(x, Products::kRest, p);
  }
  const at::Tensor q =
      query_or_key(p.q, w_.q_conv, documents, state ? &state->conv_q : nullptr);
  const at::Tensor v = value(p.v, documents, state ? &state->conv_v : nullptr);
  if (preconditioned) {
    side->join({scaled.k_write, scaled.d_T});
    if (state) state->d = scaled.d_T;
  }
  if (observer) {
    observer->on_attention(
        {layer_, documents, k, beta, r, d0, preconditioner_});
  }

  const at::Tensor state0 = state ? state->state : at::Tensor();
  const ops::DeltaRuleOutput out = ops::delta_rule(
      {q, k, scaled.k_write, v, beta, g, state0}, documents, {l2_norm_});
  if (state) state->state = out.state_T;
  const at::Tensor o = ops::gated_rms_norm(out.o, p.output_gate, w_.o_norm,
                                           config_.layer == LayerKind::kKda
                                               ? ops::GateActivation::kSigmoid
                                               : ops::GateActivation::kSilu,
                                           config_.norm_eps);
  return at::linear(o.reshape({x.size(0), HV_ * V_}), w_.o_proj);
}

}  // namespace osdn::layers
