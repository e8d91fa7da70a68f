#pragma once
// One token of each sequence through an attention layer between its projections
// and o_proj, in float64, step by step as the layer's definition has them.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/delta_rule_reference.h"
#include "reference/preconditioner_reference.h"

namespace osdn::reference {

/// One of q, k, v: rows [N,C], filter [C,W], past inputs [N,W-1,C].
struct DecodeConvInput {
  Values x, weight, past;
};

struct DecodeInput {
  std::int64_t sequences = 1, key_heads = 1, value_heads = 1, key_width = 1,
               value_width = 1, conv_width = 4;
  DecodeConvInput q, k, v;
  Values beta;  ///< logits [N,HV]; empty: 1
  double beta_scale = 1;
  Values decay;  ///< logits [N,HV] or [N,HV,K]; empty: none
  Values a_log, decay_bias;
  double lower_bound = 0;  ///< below 0: the bounded form
  Values d;                ///< [N,HV,K]; empty: no preconditioner
  double eta = 0, box_lo = 0.5, box_hi = 2;
  bool beta_aware = true;
  KeyEnergy energy = KeyEnergy::kFloor;
  Values r_logits, r_bias;  ///< [N,HV], [HV]; a sigmoid where either is given
  bool r_tied = false;
  double r_constant = 1;
  Values state;  ///< [N,HV,K,V]
  Values gate;   ///< [N,HV,V]; empty: none
  bool gate_silu = true;
  Values norm_weight;  ///< [V]
  double eps = 1e-6;
};

struct DecodeOutput {
  Values o, state, d, past_q, past_k, past_v;
};

namespace detail {

inline double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

/// silu of the convolution; `past` moves on by the row.
inline Values decode_conv(const DecodeConvInput& in, std::int64_t N,
                          std::int64_t W, Values& past) {
  const auto C = static_cast<std::int64_t>(in.x.size()) / N;
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  Values y(in.x.size());
  past.resize(in.past.size());
  for (std::int64_t n = 0; n < N; ++n) {
    for (std::int64_t c = 0; c < C; ++c) {
      const auto input = [&](std::int64_t j) {
        return j == W - 1 ? in.x[at(n * C + c)]
                          : in.past[at((n * (W - 1) + j) * C + c)];
      };
      double sum = 0;
      for (std::int64_t j = 0; j < W; ++j) {
        sum += in.weight[at(c * W + j)] * input(j);
        if (j > 0) past[at((n * (W - 1) + j - 1) * C + c)] = input(j);
      }
      y[at(n * C + c)] = sum * sigmoid(sum);
    }
  }
  return y;
}

inline Values decode_decay(const DecodeInput& in) {
  Values g(in.decay.size());
  const std::size_t heads = in.a_log.size();
  const std::size_t columns = in.decay_bias.size();
  for (std::size_t i = 0; i < g.size(); ++i) {
    const std::size_t column = i % columns;
    const double rate =
        std::exp(std::min(in.a_log[column / (columns / heads)], 80.0));
    const double z = in.decay[i] + in.decay_bias[column];
    g[i] = in.lower_bound < 0 ? in.lower_bound * sigmoid(rate * z)
                              : -rate * std::log1p(std::exp(z));
  }
  return g;
}

inline Values decode_retention(const DecodeInput& in, const Values& g) {
  const auto HV = static_cast<std::size_t>(in.value_heads);
  Values r(HV * static_cast<std::size_t>(in.sequences), in.r_constant);
  for (std::size_t i = 0; i < r.size(); ++i) {
    if (!in.r_logits.empty() || !in.r_bias.empty()) {
      r[i] = sigmoid((in.r_logits.empty() ? 0 : in.r_logits[i]) +
                     (in.r_bias.empty() ? 0 : in.r_bias[i % HV]));
    } else if (in.r_tied) {
      r[i] = std::exp(g[i]);
    }
  }
  return r;
}

/// Rows of `width` divided by their norms.
inline Values normalised(Values x, std::int64_t width) {
  for (auto row = x.begin(); row != x.end(); row += width) {
    double squares = kNormEpsilon;
    for (auto i = row; i != row + width; ++i) squares += *i * *i;
    for (auto i = row; i != row + width; ++i) *i /= std::sqrt(squares);
  }
  return x;
}

inline Values decode_norm(const DecodeInput& in, Values o) {
  const auto V = static_cast<std::size_t>(in.value_width);
  for (std::size_t row = 0; row < o.size(); row += V) {
    double squares = 0;
    for (std::size_t j = 0; j < V; ++j) squares += o[row + j] * o[row + j];
    const double size =
        std::sqrt(squares / static_cast<double>(in.value_width) + in.eps);
    for (std::size_t j = 0; j < V; ++j) {
      double& y = o[row + j];
      y *= in.norm_weight[j] / size;
      if (in.gate.empty()) continue;
      const double z = in.gate[row + j];
      y *= sigmoid(z) * (in.gate_silu ? z : 1);
    }
  }
  return o;
}

}  // namespace detail

inline DecodeOutput decode_step(const DecodeInput& in) {
  const std::int64_t N = in.sequences, HV = in.value_heads, K = in.key_width;
  DecodeOutput out;
  DeltaRuleInput rule;
  rule.key_heads = in.key_heads;
  rule.value_heads = HV;
  rule.key_width = K;
  rule.value_width = in.value_width;
  for (std::int64_t n = 0; n <= N; ++n) rule.cu_seqlens.push_back(n);
  rule.q = detail::normalised(
      detail::decode_conv(in.q, N, in.conv_width, out.past_q), K);
  rule.k = detail::normalised(
      detail::decode_conv(in.k, N, in.conv_width, out.past_k), K);
  rule.v = detail::decode_conv(in.v, N, in.conv_width, out.past_v);
  rule.beta.assign(static_cast<std::size_t>(N * HV), 1);
  for (std::size_t i = 0; i < in.beta.size(); ++i) {
    rule.beta[i] = in.beta_scale * detail::sigmoid(in.beta[i]);
  }
  rule.g = detail::decode_decay(in);
  rule.state0 = in.state;
  if (!in.d.empty()) {
    PreconditionerInput scale;
    scale.key_heads = in.key_heads;
    scale.value_heads = HV;
    scale.key_width = K;
    scale.eta = in.eta;
    scale.box_lo = in.box_lo;
    scale.box_hi = in.box_hi;
    scale.beta_aware = in.beta_aware;
    scale.energy = in.energy;
    scale.cu_seqlens = rule.cu_seqlens;
    scale.k = rule.k;
    scale.beta = rule.beta;
    scale.r = detail::decode_retention(in, rule.g);
    scale.d0 = in.d;
    out.d = preconditioner_forward(scale).d_T;
    rule.k_write.resize(in.d.size());
    for (std::int64_t i = 0; i < N * HV * K; ++i) {
      const std::int64_t n = i / (HV * K);
      const std::int64_t h = i / K % HV / (HV / in.key_heads);
      rule.k_write[static_cast<std::size_t>(i)] =
          in.d[static_cast<std::size_t>(i)] *
          rule.k[static_cast<std::size_t>((n * in.key_heads + h) * K + i % K)];
    }
  }
  DeltaRuleOutput written = delta_rule_forward(rule);
  out.state = std::move(written.state_T);
  out.o = detail::decode_norm(in, std::move(written.o));
  return out;
}

}  // namespace osdn::reference
