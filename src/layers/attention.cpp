#include "osdn/layers/attention.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "osdn/layers/functions.h"
#include "osdn/ops/delta_rule.h"
#include "osdn/ops/short_conv.h"

namespace osdn::layers {
namespace {

using config::LayerKind;
using config::QkActivation;
using config::QkNorm;
using config::Retention;

/// exp overflows a float above this; a larger A_log means "forget everything".
constexpr double kMaxLogDecayRate = 88.0;

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

at::Tensor Attention::write_strength(const at::Tensor& x) const {
  if (!w_.b_proj.defined()) return at::ones({x.size(0), HV_}, x.options());
  const at::Tensor beta = at::sigmoid(at::linear(x, w_.b_proj));
  return config_.allow_neg_eigval ? beta * 2 : beta;
}

at::Tensor Attention::decay(const at::Tensor& x) const {
  if (config_.layer == LayerKind::kDeltaNet) return {};
  const at::Tensor rate = at::exp(at::clamp_max(w_.A_log, kMaxLogDecayRate));
  if (config_.layer == LayerKind::kGdn) {
    return at::softplus(at::linear(x, w_.a_proj) + w_.dt_bias) * -rate;
  }
  const at::Tensor f =
      (at::linear(at::linear(x, w_.f_proj_down), w_.f_proj_up) + w_.dt_bias)
          .view({x.size(0), HV_, K_});
  if (config_.lower_bound) {
    return at::sigmoid(f * rate.unsqueeze(-1)) * *config_.lower_bound;
  }
  return at::softplus(f) * -rate.unsqueeze(-1);
}

at::Tensor Attention::retention(const at::Tensor& x,
                                const at::Tensor& g) const {
  switch (config_.preconditioner.retention) {
    case Retention::kDataDependent:
      return at::sigmoid(at::linear(x, w_.r_proj, w_.r_bias));
    case Retention::kTied:
      return at::exp(g);
    case Retention::kConstant:
      return at::full({x.size(0), HV_}, config_.preconditioner.retention_value,
                      x.options());
    case Retention::kPerHead:
      return at::sigmoid(w_.r_bias).expand({x.size(0), HV_}).contiguous();
    case Retention::kNone:
      break;
  }
  return {};
}

at::Tensor Attention::gated_output(const at::Tensor& o,
                                   const at::Tensor& x) const {
  const at::Tensor normed = rms_norm(o, w_.o_norm, config_.norm_eps);
  if (config_.layer == LayerKind::kKda) {
    const at::Tensor gate =
        at::linear(at::linear(x, w_.g_proj_down), w_.g_proj_up, w_.g_proj_bias);
    return normed * at::sigmoid(gate.view_as(o));
  }
  if (w_.g_proj.defined()) {
    return normed * at::silu(at::linear(x, w_.g_proj).view_as(o));
  }
  return normed;
}

at::Tensor Attention::forward(const at::Tensor& x,
                              const ops::Documents& documents,
                              AttentionState* state,
                              AttentionObserver* observer) const {
  const std::int64_t T = x.size(0);
  const QkActivation activation = config_.layer == LayerKind::kDeltaNet
                                      ? config_.qk_activation
                                      : QkActivation::kSilu;
  at::Tensor q = at::linear(x, w_.q_proj);
  at::Tensor k = at::linear(x, w_.k_proj);
  at::Tensor v = at::linear(x, w_.v_proj);
  if (config_.use_short_conv) {
    const bool fused = activation == QkActivation::kSilu;
    q = convolve(q, w_.q_conv, documents, fused,
                 state ? &state->conv_q : nullptr);
    k = convolve(k, w_.k_conv, documents, fused,
                 state ? &state->conv_k : nullptr);
    v = convolve(v, w_.v_conv, documents, true,
                 state ? &state->conv_v : nullptr);
    if (!fused) {
      q = activate(q, activation);
      k = activate(k, activation);
    }
  } else {
    q = activate(q, activation);
    k = activate(k, activation);
    v = at::silu(v);
  }
  q = q.view({T, H_, K_});
  k = k.view({T, H_, K_});
  v = v.view({T, HV_, V_});
  if (!l2_norm_) {
    q = sum_norm(q);
    k = sum_norm(k);
  }

  const at::Tensor beta = write_strength(x);
  const at::Tensor g = decay(x);
  at::Tensor r, d0, k_write;
  if (config_.preconditioner.enabled) {
    r = retention(x, g);
    d0 = state && state->d.defined() ? state->d : w_.d0;
    const ops::PreconditionerOutput out =
        ops::preconditioner({k, beta, r, d0}, documents, preconditioner_);
    k_write = out.k_write;
    if (state) state->d = out.d_T;
  }
  if (observer) {
    observer->on_attention(
        {layer_, documents, k, beta, r, d0, preconditioner_});
  }

  const at::Tensor state0 = state ? state->state : at::Tensor();
  const ops::DeltaRuleOutput out = ops::delta_rule(
      {q, k, k_write, v, beta, g, state0}, documents, {l2_norm_});
  if (state) state->state = out.state_T;
  return at::linear(gated_output(out.o, x).reshape({T, HV_ * V_}), w_.o_proj);
}

}  // namespace osdn::layers
