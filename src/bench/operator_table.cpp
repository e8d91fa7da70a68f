#include "osdn/bench/operator_table.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <cmath>

#include "decode_step_case.h"
#include "drawer.h"
#include "osdn/ops/delta_rule.h"
#include "osdn/ops/gate.h"
#include "osdn/ops/linear_cross_entropy.h"
#include "osdn/ops/norm.h"
#include "osdn/ops/preconditioner.h"
#include "osdn/ops/project.h"
#include "osdn/ops/short_conv.h"
#include "osdn/ops/swiglu.h"

namespace osdn::bench {
namespace {

using Tensors = std::vector<at::Tensor>;

std::vector<std::int64_t> equal_documents(std::int64_t count,
                                          std::int64_t tokens) {
  std::vector<std::int64_t> cu(static_cast<std::size_t>(count) + 1);
  for (std::size_t i = 0; i < cu.size(); ++i) {
    cu[i] = static_cast<std::int64_t>(i) * tokens;
  }
  return cu;
}

/// Tails of every kind: one token, an empty document, a chunk less one, a chunk
/// and one more.
std::vector<std::int64_t> ragged_documents() {
  return {0, 1, 1, 64, 129, 200, 203};
}

// ---- the attention operators
// -------------------------------------------------

struct AttentionShape {
  std::string name;
  Use use;
  std::vector<std::int64_t> cu_seqlens;
  std::int64_t H, HV, K, V;
  std::int64_t T() const { return cu_seqlens.back(); }
  std::int64_t N() const {
    return static_cast<std::int64_t>(cu_seqlens.size()) - 1;
  }
};

enum class Gate { kNone, kPerHead, kPerChannel };

OperatorCase delta_rule_case(const AttentionShape& s, Gate gate, bool write_key,
                             bool states) {
  OperatorCase c;
  c.op = std::string("delta_rule") +
         (gate == Gate::kNone      ? ""
          : gate == Gate::kPerHead ? ", gate per head"
                                   : ", gate per channel") +
         (write_key ? ", write key" : "") + (states ? ", from a state" : "");
  c.shape = s.name;
  c.use = s.use;
  c.cu_seqlens = s.cu_seqlens;
  c.draw = [s, gate, write_key, states](std::uint64_t seed, at::Device device) {
    Drawer d(seed, device);
    Inputs in{{"q", d.normal({s.T(), s.H, s.K})},
              {"k", d.normal({s.T(), s.H, s.K})},
              {"v", d.normal({s.T(), s.HV, s.V})},
              {"beta", d.uniform({s.T(), s.HV}, 0.05, 0.95), Role::kControl}};
    if (write_key) in.push_back({"k_write", d.normal({s.T(), s.HV, s.K})});
    if (gate == Gate::kPerHead) {
      in.push_back({"g", d.uniform({s.T(), s.HV}, -0.3, 0), Role::kControl});
    } else if (gate == Gate::kPerChannel) {
      in.push_back(
          {"g", d.uniform({s.T(), s.HV, s.K}, -0.3, 0), Role::kControl});
    }
    if (states) {
      in.push_back(
          {"state0", d.normal({s.N(), s.HV, s.K, s.V}, 0.1), Role::kControl});
    }
    return in;
  };
  c.run = [gate, write_key, states](
              const Tensors& in, const ops::Documents& documents) -> Tensors {
    ops::DeltaRuleInputs given{in[0], in[1], {}, in[2], in[3], {}, {}};
    std::size_t next = 4;
    if (write_key) given.k_write = in[next++];
    if (gate != Gate::kNone) given.g = in[next++];
    if (states) given.state0 = in[next++];
    const ops::DeltaRuleOutput out = ops::delta_rule(given, documents);
    if (states) return {out.o, out.state_T};
    return {out.o};
  };
  // Per token and head, chunk 64: five chunk products and three with the state.
  const double heads = static_cast<double>(s.T() * s.HV);
  const auto K = static_cast<double>(s.K), V = static_cast<double>(s.V);
  c.flops = heads * 2 * (64 * (3 * K + 2 * V) + 3 * K * V);
  const double key_rows = static_cast<double>(s.T() * s.H) * K;
  c.bytes = 2 * (2 * key_rows + (write_key ? heads * K : 0) + 2 * heads * V) +
            4 * heads *
                (1 + (gate == Gate::kNone      ? 0
                      : gate == Gate::kPerHead ? 1
                                               : K));
  return c;
}

OperatorCase preconditioner_case(const AttentionShape& s, bool retention,
                                 double eta) {
  OperatorCase c;
  c.op = std::string("preconditioner") + (retention ? ", forgetting" : "");
  c.shape = s.name;
  c.use = s.use;
  c.cu_seqlens = s.cu_seqlens;
  // A weaker retention would drive d down to the box.
  const double r_min = eta < 0.1 ? 0.995 : 0.9;
  c.draw = [s, retention, r_min](std::uint64_t seed, at::Device device) {
    Drawer d(seed, device);
    Inputs in{{"k", d.normal({s.T(), s.H, s.K})},
              {"beta", d.uniform({s.T(), s.HV}, 0.05, 0.95), Role::kControl},
              {"d0", d.uniform({s.HV, s.K}, 0.7, 1.4), Role::kControl}};
    if (retention) {
      in.push_back({"r", d.uniform({s.T(), s.HV}, r_min, 1), Role::kControl});
    }
    return in;
  };
  c.run = [retention, eta](const Tensors& in,
                           const ops::Documents& documents) -> Tensors {
    ops::PreconditionerOptions options;
    options.eta = eta;
    const ops::PreconditionerOutput out = ops::preconditioner(
        {in[0], in[1], retention ? in[3] : at::Tensor(), in[2]}, documents,
        options);
    return {out.k_write, out.d_T};
  };
  const double elements = static_cast<double>(s.T() * s.HV * s.K);
  c.flops = 8 * elements;
  c.bytes = 4 * elements;
  return c;
}

// ---- what goes row by row
// ----------------------------------------------------

struct Rows {
  std::string name;
  Use use;
  std::int64_t T, width;
};

OperatorCase row_case(const std::string& op, const Rows& r,
                      std::function<Inputs(Drawer&)> draw, OperatorRun run) {
  OperatorCase c;
  c.op = op;
  c.shape = r.name;
  c.use = r.use;
  c.cu_seqlens = {0, r.T};
  c.draw = [draw = std::move(draw)](std::uint64_t seed, at::Device device) {
    Drawer d(seed, device);
    return draw(d);
  };
  c.run = std::move(run);
  return c;
}

OperatorCase short_conv_case(const AttentionShape& s, std::int64_t channels,
                             bool silu) {
  OperatorCase c = row_case(
      silu ? "short_conv, silu" : "short_conv",
      {s.name, s.use, s.T(), channels},
      [T = s.T(), channels](Drawer& d) -> Inputs {
        return {{"x", d.normal({T, channels})},
                {"weight", d.normal({channels, 1, 4}, 0.5), Role::kControl}};
      },
      [silu](const Tensors& in, const ops::Documents& documents) -> Tensors {
        return {ops::short_conv({in[0], in[1], {}}, documents, silu).y};
      });
  c.cu_seqlens = s.cu_seqlens;
  c.bytes = 4 * static_cast<double>(s.T() * channels);
  c.backward = 1.5;
  return c;
}

OperatorCase rms_norm_case(const Rows& r, bool residual) {
  OperatorCase c = row_case(
      residual ? "add_rms_norm" : "rms_norm", r,
      [r, residual](Drawer& d) -> Inputs {
        Inputs in{{"x", d.normal({r.T, r.width})},
                  {"weight", d.uniform({r.width}, 0.5, 1.5), Role::kControl}};
        if (residual) in.push_back({"residual", d.normal({r.T, r.width})});
        return in;
      },
      [residual](const Tensors& in, const ops::Documents&) -> Tensors {
        if (!residual) return {ops::rms_norm(in[0], in[1], 1e-6)};
        const auto out = ops::add_rms_norm(in[0], in[2], in[1], 1e-6);
        return {out.sum, out.y};
      });
  c.bytes = (residual ? 8 : 4) * static_cast<double>(r.T * r.width);
  c.backward = residual ? 1 : 1.5;
  return c;
}

OperatorCase gated_norm_case(const Rows& r, std::int64_t heads,
                             ops::GateActivation activation) {
  const bool silu = activation == ops::GateActivation::kSilu;
  OperatorCase c = row_case(
      silu ? "gated_rms_norm, silu" : "gated_rms_norm, sigmoid", r,
      [r, heads](Drawer& d) -> Inputs {
        return {{"o", d.normal({r.T, heads, r.width})},
                {"gate", d.normal({r.T, heads * r.width})},
                {"weight", d.uniform({r.width}, 0.5, 1.5), Role::kControl}};
      },
      [activation](const Tensors& in, const ops::Documents&) -> Tensors {
        return {ops::gated_rms_norm(in[0], in[1], in[2], activation, 1e-6)};
      });
  c.bytes = 6 * static_cast<double>(r.T * heads * r.width);
  c.backward = 5.0 / 3;
  return c;
}

enum class GateFunction { kSoftplus, kBounded, kSigmoid };

OperatorCase gate_case(const Rows& r, std::int64_t heads, GateFunction f) {
  const bool channels = r.width > 1;
  const Shape shape = channels ? Shape{r.T, heads, r.width} : Shape{r.T, heads};
  OperatorCase c = row_case(
      f == GateFunction::kSoftplus  ? "softplus_decay"
      : f == GateFunction::kBounded ? "bounded_decay"
                                    : "sigmoid_gate",
      r,
      [shape, heads, f](Drawer& d) -> Inputs {
        Inputs in{{"x", d.normal(shape)},
                  {"bias", d.normal({shape.begin() + 1, shape.end()}),
                   Role::kControl}};
        if (f != GateFunction::kSigmoid) {
          in.push_back({"A_log", d.uniform({heads}, -1, 1), Role::kControl});
        }
        return in;
      },
      [f](const Tensors& in, const ops::Documents&) -> Tensors {
        if (f == GateFunction::kSoftplus) {
          return {ops::softplus_decay(in[0], in[2], in[1])};
        }
        if (f == GateFunction::kBounded) {
          return {ops::bounded_decay(in[0], in[2], in[1], -5)};
        }
        return {ops::sigmoid_gate(in[0], in[1], 2)};
      });
  c.bytes = 6 * static_cast<double>(r.T * heads * r.width);
  c.backward = 4.0 / 3;
  return c;
}

OperatorCase mlp_case(const Rows& r, std::int64_t inner) {
  const double scale = 1 / std::sqrt(static_cast<double>(r.width));
  OperatorCase c = row_case(
      "swiglu_mlp", r,
      [r, inner, scale](Drawer& d) -> Inputs {
        return {{"x", d.normal({r.T, r.width})},
                {"gate", d.normal({inner, r.width}, scale)},
                {"up", d.normal({inner, r.width}, scale)},
                {"down", d.normal({r.width, inner}, scale)}};
      },
      [](const Tensors& in, const ops::Documents&) -> Tensors {
        return {ops::swiglu_mlp(in[0], in[1], in[2], in[3])};
      });
  const auto T = static_cast<double>(r.T);
  c.flops = 6 * T * static_cast<double>(r.width * inner);
  c.bytes = 2 * T * static_cast<double>(2 * r.width + 6 * inner);
  return c;
}

OperatorCase project_case(const Rows& r, std::int64_t outputs) {
  const double scale = 1 / std::sqrt(static_cast<double>(r.width));
  OperatorCase c = row_case(
      "project", r,
      [r, outputs, scale](Drawer& d) -> Inputs {
        Inputs in{{"x", d.normal({r.T, r.width})}};
        for (std::int64_t i = 0; i < outputs; ++i) {
          in.push_back({"weight " + std::to_string(i),
                        d.normal({r.width, r.width}, scale)});
        }
        return in;
      },
      [](const Tensors& in, const ops::Documents&) -> Tensors {
        return ops::project(in[0], {in.begin() + 1, in.end()});
      });
  const auto n = static_cast<double>(outputs);
  const auto area = static_cast<double>(r.T * r.width);
  c.flops = 2 * n * area * static_cast<double>(r.width);
  c.bytes = 2 * (1 + n) * area;
  return c;
}

OperatorCase cross_entropy_case(const Rows& r, std::int64_t vocab) {
  const double scale = 1 / std::sqrt(static_cast<double>(r.width));
  OperatorCase c = row_case(
      "linear_cross_entropy", r,
      [r, vocab, scale](Drawer& d) -> Inputs {
        return {{"hidden", d.normal({r.T, r.width})},
                {"weight", d.normal({vocab, r.width}, 3 * scale)},
                {"labels", d.labels(r.T, vocab), Role::kLabels}};
      },
      [](const Tensors& in, const ops::Documents&) -> Tensors {
        return {ops::linear_cross_entropy(in[0], in[1], in[2])};
      });
  c.flops = 2 * static_cast<double>(r.T * r.width) * static_cast<double>(vocab);
  return c;
}

void add_attention(std::vector<OperatorCase>& table) {
  const std::vector<AttentionShape> small = {
      {"ragged, 2 of 4 heads", Use::kCheck, ragged_documents(), 2, 4, 64, 64},
      {"ragged, wide", Use::kCheck, ragged_documents(), 1, 1, 128, 128},
      {"ragged, K 256, V 64", Use::kCheck, {0, 70, 100}, 1, 1, 256, 64},
      {"ragged, K 256, V 128", Use::kCheck, {0, 0, 65, 66}, 1, 2, 256, 128},
      {"ragged, K 256, V 256", Use::kCheck, {0, 1, 68}, 1, 1, 256, 256},
      {"odd widths", Use::kCheck, {0, 5, 40}, 1, 2, 24, 40},
  };
  for (const AttentionShape& s : small) {
    for (const Gate gate : {Gate::kNone, Gate::kPerHead, Gate::kPerChannel}) {
      for (const bool write_key : {false, true}) {
        table.push_back(delta_rule_case(s, gate, write_key, s.T() < 101));
      }
    }
    for (const double eta : {0.003, 0.5}) {  // inside the box, and at it
      for (const bool retention : {false, true}) {
        table.push_back(preconditioner_case(s, retention, eta));
        table.back().smooth = eta < 0.1;
        if (eta > 0.1) table.back().shape += ", at the box";
      }
    }
    table.push_back(short_conv_case(s, s.H * s.K, true));
    table.push_back(short_conv_case(s, s.H * s.K, false));
    table.push_back(
        decode_step_case({s.name, s.use, s.N(), s.H, s.HV, s.K, s.V}));
  }
  for (const std::int64_t N : {1, 64}) {
    table.push_back(decode_step_case(
        {"340m, " + std::to_string(N) + (N == 1 ? " sequence" : " sequences"),
         Use::kSpeed, N, 8, 8, 128, 128}));
  }
  const AttentionShape m340{
      "340m", Use::kSpeed, equal_documents(16, 4096), 8, 8, 128, 128};
  const AttentionShape b1_3{
      "1.3b", Use::kSpeed, equal_documents(8, 4096), 16, 16, 128, 128};
  const AttentionShape lengthy{
      "long", Use::kSpeed, equal_documents(1, 32768), 16, 16, 128, 128};
  const AttentionShape halves{"340m, 32 x 2048",
                              Use::kSpeed,
                              equal_documents(32, 2048),
                              8,
                              8,
                              128,
                              128};
  const AttentionShape gdn{"340m", Use::kSpeed, equal_documents(16, 4096), 6, 6,
                           128,    256};
  for (const AttentionShape& s : {m340, b1_3, lengthy, halves}) {
    table.push_back(delta_rule_case(s, Gate::kNone, false, false));
  }
  table.push_back(delta_rule_case(m340, Gate::kNone, true, false));
  table.push_back(delta_rule_case(gdn, Gate::kPerHead, false, false));
  table.push_back(delta_rule_case(m340, Gate::kPerChannel, false, false));
  // As many elements of q and of the state as 340m, but for V 256 twice those.
  const auto wide = [](std::int64_t heads, std::int64_t V) {
    return AttentionShape{"16 x 4096, " + std::to_string(heads) +
                              " heads of 256 x " + std::to_string(V),
                          Use::kSpeed,
                          equal_documents(16, 4096),
                          heads,
                          heads,
                          256,
                          V};
  };
  for (const Gate gate : {Gate::kNone, Gate::kPerHead, Gate::kPerChannel}) {
    for (const AttentionShape& s : {wide(8, 64), wide(4, 128), wide(4, 256)}) {
      table.push_back(delta_rule_case(s, gate, false, false));
    }
    table.push_back(delta_rule_case(wide(4, 128), gate, true, false));
  }
  for (const AttentionShape& s : {m340, b1_3}) {
    table.push_back(preconditioner_case(s, true, 0.003));
  }
  table.push_back(short_conv_case(m340, 1024, true));
}

void add_rows(std::vector<OperatorCase>& table) {
  const Rows check{"67 rows of 96", Use::kCheck, 67, 96};
  const Rows speed{"340m", Use::kSpeed, 65536, 1024};
  for (const Rows& r : {check, speed}) {
    const bool small = r.use == Use::kCheck;
    table.push_back(rms_norm_case(r, false));
    table.push_back(rms_norm_case(r, true));
    const Rows head{r.name, r.use, r.T, small ? 40 : 128};
    const std::int64_t heads = small ? 3 : 8;
    for (const auto activation :
         {ops::GateActivation::kSilu, ops::GateActivation::kSigmoid}) {
      table.push_back(gated_norm_case(head, heads, activation));
    }
    const Rows scalar{r.name + ", per head", r.use, r.T, 1};
    const Rows channel{r.name + ", per channel", r.use, r.T, head.width};
    table.push_back(gate_case(scalar, heads, GateFunction::kSigmoid));
    for (const Rows& g : {scalar, channel}) {
      table.push_back(gate_case(g, heads, GateFunction::kSoftplus));
      table.push_back(gate_case(g, heads, GateFunction::kBounded));
    }
    table.push_back(mlp_case(r, small ? 160 : 2816));
    table.push_back(project_case(r, 3));
    table.push_back(cross_entropy_case(r, small ? 131 : 32000));
  }
}

}  // namespace

std::vector<OperatorCase> operator_table() {
  std::vector<OperatorCase> table;
  add_attention(table);
  add_rows(table);
  return table;
}

}  // namespace osdn::bench
