#pragma once
// Layers whose tokens are taken one by one with decode_step and as whole
// sequences with the separate operators.

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ops/tensor_test_support.h"
#include "osdn/ops/decode_step.h"
#include "osdn/ops/delta_rule.h"
#include "osdn/ops/gate.h"
#include "osdn/ops/short_conv.h"

namespace osdn::test {

enum class Decay { kNone, kHead, kChannel, kChannelBounded };

struct DecodeStepCase {
  std::string name;
  std::int64_t N, H, HV, K, V;
  Decay decay = Decay::kNone;
  bool beta = true, preconditioner = false, gate = true;
  ops::DecodeRetention retention = ops::DecodeRetention::kOne;
  bool retention_logits = true;
  ops::DecodeStepOptions options = {};
};

/// Each kind of gate, norm and grouping, widths of every class, 1 to 64
/// sequences.
inline std::vector<DecodeStepCase> decode_step_cases() {
  using ops::DecodeRetention;
  std::vector<DecodeStepCase> cases = {
      {"plain, 64 sequences", 64, 2, 2, 128, 128},
      {"beta 1, no gate", 3, 2, 2, 24, 40},
      {"d, forgetting", 3, 2, 2, 64, 64},
      {"d at the box, grouped", 3, 1, 3, 24, 40},
      {"per head, tied r, grouped", 1, 2, 4, 128, 256},
      {"per head, r per head", 64, 2, 2, 64, 64},
      {"per channel, constant r", 3, 1, 2, 128, 128},
      {"per channel, bounded, forgetting", 1, 2, 2, 128, 128},
      {"widest", 3, 1, 1, 256, 256},
  };
  cases[1].beta = cases[1].gate = false;
  cases[2].preconditioner = cases[3].preconditioner = true;
  cases[2].retention = DecodeRetention::kSigmoid;
  cases[3].options.preconditioner.eta = 0.5;
  cases[3].options.beta_scale = 2;
  cases[3].options.preconditioner.norm = ops::PreconditionerNorm::kAdd;
  cases[4].decay = cases[5].decay = Decay::kHead;
  cases[4].preconditioner = cases[5].preconditioner = true;
  cases[4].retention = DecodeRetention::kTied;
  cases[5].retention = DecodeRetention::kSigmoid;
  cases[5].retention_logits = false;
  cases[5].options.preconditioner.beta_aware = false;
  cases[6].decay = Decay::kChannel;
  cases[6].preconditioner = true;
  cases[6].retention = DecodeRetention::kConstant;
  cases[6].options.retention_value = 0.9375;
  cases[7].decay = Decay::kChannelBounded;
  cases[7].options.lower_bound = -5;
  cases[7].preconditioner = true;
  cases[7].retention = DecodeRetention::kSigmoid;
  for (const std::size_t i : {6u, 7u}) {
    cases[i].options.activation = ops::GateActivation::kSigmoid;
  }
  for (DecodeStepCase& c : cases) {
    c.options.retention = c.retention;
    c.options.eps = 1e-5;
  }
  return cases;
}

/// Parameters, first states, and the rows of `tokens` tokens of each of the N
/// sequences, sequence by sequence, in float64. Rows and past inputs have
/// values that `dtype` holds, the rest values that a float holds.
struct DecodeStepProblem {
  ops::DecodeStepInputs in;
  ops::DecodeState state;
};

inline DecodeStepProblem draw_decode_step(const DecodeStepCase& c,
                                          std::int64_t tokens,
                                          at::ScalarType dtype) {
  std::uint64_t seed = 1;
  const auto rows = [&](std::vector<std::int64_t> shape) {
    return uniform(seed++, std::move(shape), -1.7, 1.7)
        .to(dtype)
        .to(at::kDouble);
  };
  const auto control = [&](std::vector<std::int64_t> shape, double lo,
                           double hi) {
    return uniform(seed++, std::move(shape), lo, hi)
        .to(at::kFloat)
        .to(at::kDouble);
  };
  const std::int64_t T = c.N * tokens, keys = c.H * c.K, values = c.HV * c.V;
  DecodeStepProblem p;
  p.in.q = rows({T, keys});
  p.in.k = rows({T, keys});
  p.in.v = rows({T, values});
  p.in.q_filter = control({keys, 1, 4}, -0.8, 0.8);
  p.in.k_filter = control({keys, 1, 4}, -0.8, 0.8);
  p.in.v_filter = control({values, 1, 4}, -0.8, 0.8);
  if (c.beta) p.in.beta = rows({T, c.HV});
  if (c.decay != Decay::kNone) {
    const bool head = c.decay == Decay::kHead;
    p.in.decay = head ? rows({T, c.HV}) : rows({T, c.HV, c.K});
    p.in.A_log = control({c.HV}, -1, 1);
    p.in.decay_bias =
        head ? control({c.HV}, -2, 0) : control({c.HV, c.K}, -2, 0);
  }
  if (c.retention == ops::DecodeRetention::kSigmoid) {
    if (c.retention_logits) p.in.retention = rows({T, c.HV});
    p.in.retention_bias = control({c.HV}, 2, 4);
  }
  if (c.gate) p.in.gate = rows({T, values});
  p.in.norm_weight = control({c.V}, 0.5, 1.5);
  p.state.state = control({c.N, c.HV, c.K, c.V}, -0.5, 0.5);
  if (c.preconditioner) p.state.d = control({c.N, c.HV, c.K}, 0.8, 1.2);
  p.state.conv_q = rows({c.N, keys, 3});
  p.state.conv_k = rows({c.N, keys, 3});
  p.state.conv_v = rows({c.N, values, 3});
  return p;
}

/// o of all tokens [N, tokens, HV V], and the states behind them.
struct DecodeStepResult {
  at::Tensor o;
  ops::DecodeState state;
  ops::DecodeState given;  ///< to the first step, where there are steps
};

inline std::vector<at::Tensor> tensors_of(const ops::DecodeState& s) {
  std::vector<at::Tensor> all = {s.state, s.conv_q, s.conv_k, s.conv_v};
  if (s.d.defined()) all.push_back(s.d);
  return all;
}

/// The separate operators over whole sequences.
inline DecodeStepResult run_whole(const DecodeStepCase& c,
                                  const DecodeStepProblem& p) {
  using ops::DecodeRetention;
  const std::int64_t T = p.in.q.size(0), tokens = T / c.N;
  std::vector<std::int64_t> cu_seqlens;
  for (std::int64_t n = 0; n <= c.N; ++n) cu_seqlens.push_back(n * tokens);
  const ops::Documents documents(cu_seqlens);
  const auto q =
      ops::short_conv({p.in.q, p.in.q_filter, p.state.conv_q}, documents);
  const auto k =
      ops::short_conv({p.in.k, p.in.k_filter, p.state.conv_k}, documents);
  const auto v =
      ops::short_conv({p.in.v, p.in.v_filter, p.state.conv_v}, documents);
  const at::Tensor keys = k.y.view({T, c.H, c.K});
  const at::Tensor beta =
      c.beta ? ops::sigmoid_gate(p.in.beta, {}, c.options.beta_scale)
             : at::ones({T, c.HV}, at::kDouble);
  at::Tensor g, r, k_write;
  if (c.decay == Decay::kChannelBounded) {
    g = ops::bounded_decay(p.in.decay, p.in.A_log, p.in.decay_bias,
                           *c.options.lower_bound);
  } else if (c.decay != Decay::kNone) {
    g = ops::softplus_decay(p.in.decay, p.in.A_log, p.in.decay_bias);
  }
  if (c.retention == DecodeRetention::kSigmoid) {
    const at::Tensor z = at::zeros({T, c.HV}, at::kDouble);
    r = ops::sigmoid_gate(c.retention_logits ? p.in.retention : z,
                          p.in.retention_bias);
  } else if (c.retention == DecodeRetention::kTied) {
    r = at::exp(g);
  } else if (c.retention == DecodeRetention::kConstant) {
    r = at::full({T, c.HV}, c.options.retention_value, at::kDouble);
  }
  DecodeStepResult out;
  if (c.preconditioner) {
    const auto scaled = ops::preconditioner(
        {keys, beta, r, p.state.d}, documents, c.options.preconditioner);
    k_write = scaled.k_write;
    out.state.d = scaled.d_T;
  }
  const auto written =
      ops::delta_rule({q.y.view({T, c.H, c.K}), keys, k_write,
                       v.y.view({T, c.HV, c.V}), beta, g, p.state.state},
                      documents);
  out.o = ops::gated_rms_norm(written.o, p.in.gate, p.in.norm_weight,
                              c.options.activation, c.options.eps)
              .view({c.N, tokens, c.HV * c.V});
  out.state.state = written.state_T;
  out.state.conv_q = q.state_T;
  out.state.conv_k = k.state_T;
  out.state.conv_v = v.state_T;
  return out;
}

/// Token by token with decode_step on a device that holds rows in `dtype`.
inline DecodeStepResult run_steps(const DecodeStepCase& c,
                                  const DecodeStepProblem& p, at::Device device,
                                  at::ScalarType dtype) {
  const std::int64_t tokens = p.in.q.size(0) / c.N;
  const auto to = [&](const at::Tensor& x, bool rows) {
    if (!x.defined()) return x;
    return x.to(device, rows || dtype != at::kBFloat16 ? dtype : at::kFloat);
  };
  const auto token = [&](const at::Tensor& x, std::int64_t t) {
    if (!x.defined()) return x;
    std::vector<std::int64_t> shape = x.sizes().vec();
    shape[0] = tokens;
    shape.insert(shape.begin(), c.N);
    return to(x, true).view(shape).select(1, t);
  };
  ops::DecodeStepInputs in;
  in.q_filter = to(p.in.q_filter, false);
  in.k_filter = to(p.in.k_filter, false);
  in.v_filter = to(p.in.v_filter, false);
  in.A_log = to(p.in.A_log, false);
  in.decay_bias = to(p.in.decay_bias, false);
  in.retention_bias = to(p.in.retention_bias, false);
  in.norm_weight = to(p.in.norm_weight, false);
  DecodeStepResult out;
  out.state = {to(p.state.state, false), to(p.state.d, false),
               to(p.state.conv_q, true), to(p.state.conv_k, true),
               to(p.state.conv_v, true)};
  out.given = out.state;
  std::vector<at::Tensor> rows;
  for (std::int64_t t = 0; t < tokens; ++t) {
    in.q = token(p.in.q, t);
    in.k = token(p.in.k, t);
    in.v = token(p.in.v, t);
    in.beta = token(p.in.beta, t);
    in.decay = token(p.in.decay, t);
    in.retention = token(p.in.retention, t);
    in.gate = token(p.in.gate, t);
    const ops::DecodeStepOutput step =
        ops::decode_step(in, out.state, c.options);
    rows.push_back(step.o);
    out.state = step.state;
  }
  out.o = at::stack(rows, 1);
  return out;
}

/// In place every step gives the same bits, in the tensors that the first one
/// got.
inline void expect_same_in_place(const DecodeStepCase& c, at::Device device,
                                 at::ScalarType dtype) {
  const DecodeStepResult apart =
      run_steps(c, draw_decode_step(c, 3, dtype), device, dtype);
  DecodeStepCase inside = c;
  inside.options.in_place = true;
  const DecodeStepResult same =
      run_steps(inside, draw_decode_step(c, 3, dtype), device, dtype);
  EXPECT_TRUE(at::equal(same.o, apart.o)) << c.name;
  const auto found = tensors_of(same.state), right = tensors_of(apart.state);
  const auto places = tensors_of(same.given), before = tensors_of(apart.given);
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(at::equal(found[i], right[i])) << c.name << ", tensor " << i;
    EXPECT_EQ(found[i].data_ptr(), places[i].data_ptr()) << c.name;
    EXPECT_FALSE(at::equal(before[i], right[i])) << c.name;
  }
}

}  // namespace osdn::test
