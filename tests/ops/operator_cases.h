#pragma once
// Random inputs for the operators, and comparisons that name what differs.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "ops/run_operators.h"
#include "osdn/core/random.h"

namespace osdn::test {

/// `count` numbers, uniform in [lo, hi), that a float holds exactly: both
/// precisions and the reference then start from the same inputs.
inline Values uniform_values(std::uint64_t seed, std::int64_t count, double lo,
                             double hi) {
  Xoshiro256 random(seed);
  Values values(static_cast<std::size_t>(count));
  for (double& x : values) {
    x = static_cast<float>(lo + (hi - lo) * random.uniform());
  }
  return values;
}

inline Values normal_values(std::uint64_t seed, std::int64_t count,
                            double deviation = 1) {
  Xoshiro256 random(seed);
  Values values(static_cast<std::size_t>(count));
  for (double& x : values) x = static_cast<float>(deviation * random.normal());
  return values;
}

/// Boundaries of documents of these lengths.
inline std::vector<std::int64_t> packed(
    const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> cu_seqlens{0};
  for (std::int64_t n : lengths) cu_seqlens.push_back(cu_seqlens.back() + n);
  return cu_seqlens;
}

enum class Gate { kNone, kHead, kChannel };

struct DeltaRuleCase {
  std::int64_t H = 1, HV = 1, K = 32, V = 32;
  std::vector<std::int64_t> lengths{40};
  Gate gate = Gate::kNone;
  double gate_lo = -1, gate_hi = 0;
  double beta_lo = 0, beta_hi = 1;
  bool k_write = true, state0 = true, l2_norm = true;
  std::uint64_t seed = 1;

  std::int64_t tokens() const { return packed(lengths).back(); }
  std::int64_t gate_size() const {
    return gate == Gate::kNone
               ? 0
               : tokens() * HV * (gate == Gate::kChannel ? K : 1);
  }
};

struct DeltaRuleData {
  reference::DeltaRuleInput in;
  Values grad_o, grad_state_T;
};

inline DeltaRuleData make_delta_rule(const DeltaRuleCase& c) {
  const std::int64_t T = c.tokens();
  const std::int64_t states =
      static_cast<std::int64_t>(c.lengths.size()) * c.HV * c.K * c.V;
  // Keys that are not normalised inside get norms below one here, the limit
  // up to which the rule is contracting.
  const double spread =
      c.l2_norm ? 1.0 : 0.7 / std::sqrt(static_cast<double>(c.K));
  DeltaRuleData data;
  reference::DeltaRuleInput& in = data.in;
  in.key_heads = c.H;
  in.value_heads = c.HV;
  in.key_width = c.K;
  in.value_width = c.V;
  in.l2_norm = c.l2_norm;
  in.cu_seqlens = packed(c.lengths);
  std::uint64_t seed = c.seed * 100;
  in.q = normal_values(++seed, T * c.H * c.K, spread);
  in.k = normal_values(++seed, T * c.H * c.K, spread);
  in.v = normal_values(++seed, T * c.HV * c.V);
  in.beta = uniform_values(++seed, T * c.HV, c.beta_lo, c.beta_hi);
  in.g = uniform_values(++seed, c.gate_size(), c.gate_lo, c.gate_hi);
  if (c.k_write) {
    const Values d = uniform_values(++seed, T * c.HV * c.K, 0.5, 1.5);
    in.k_write.resize(d.size());
    const std::int64_t group = c.HV / c.H;
    for (std::int64_t t = 0; t < T; ++t) {
      for (std::int64_t h = 0; h < c.HV; ++h) {
        for (std::int64_t i = 0; i < c.K; ++i) {
          const auto to = static_cast<std::size_t>((t * c.HV + h) * c.K + i);
          const auto from =
              static_cast<std::size_t>((t * c.H + h / group) * c.K + i);
          in.k_write[to] = static_cast<float>(d[to] * in.k[from]);
        }
      }
    }
  }
  if (c.state0) in.state0 = normal_values(++seed, states, 0.5);
  data.grad_o = normal_values(++seed, T * c.HV * c.V);
  data.grad_state_T = normal_values(++seed, states, 0.5);
  return data;
}

struct PreconditionerCase {
  std::int64_t H = 1, HV = 1, K = 32;
  std::vector<std::int64_t> lengths{40};
  double eta = 0.3, lo = 0.5, hi = 2;
  bool beta_aware = true, l2_norm = true, detach = false;
  bool retention = false, per_document = false;
  double r_lo = 0.9, r_hi = 1;
  double beta_lo = 0, beta_hi = 1;
  double key_scale = 1;
  reference::KeyEnergy energy = reference::KeyEnergy::kFloor;
  std::uint64_t seed = 1;
};

struct PreconditionerData {
  reference::KeyWriteInput in;
  Values grad_k_write, grad_d_T;
};

inline PreconditionerData make_preconditioner(const PreconditionerCase& c) {
  const std::int64_t T = packed(c.lengths).back();
  const auto N = static_cast<std::int64_t>(c.lengths.size());
  PreconditionerData data;
  reference::PreconditionerInput& in = data.in.recurrence;
  data.in.l2_norm = c.l2_norm;
  data.in.detach = c.detach;
  in.key_heads = c.H;
  in.value_heads = c.HV;
  in.key_width = c.K;
  in.eta = c.eta;
  in.box_lo = c.lo;
  in.box_hi = c.hi;
  in.beta_aware = c.beta_aware;
  in.energy = c.energy;
  in.cu_seqlens = packed(c.lengths);
  std::uint64_t seed = c.seed * 100 + 50;
  in.k = normal_values(++seed, T * c.H * c.K, c.key_scale);
  in.beta = uniform_values(++seed, T * c.HV, c.beta_lo, c.beta_hi);
  if (c.retention) in.r = uniform_values(++seed, T * c.HV, c.r_lo, c.r_hi);
  in.d0 =
      uniform_values(++seed, (c.per_document ? N : 1) * c.HV * c.K, 0.6, 1.4);
  data.grad_k_write = normal_values(++seed, T * c.HV * c.K);
  data.grad_d_T = normal_values(++seed, N * c.HV * c.K);
  return data;
}

/// Root mean square of the difference, over that of `expected` (over one where
/// that is zero). NaN where anything is NaN, infinity where sizes differ.
inline double relative_error(const Values& got, const Values& expected) {
  if (got.size() != expected.size()) return HUGE_VAL;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  if (norm == 0) {
    return got.empty()
               ? 0.0
               : std::sqrt(difference / static_cast<double>(got.size()));
  }
  return std::sqrt(difference / norm);
}

/// The results of `expected` that `got` does not equal within `tolerance`,
/// one line each with the error; empty when all is well.
inline std::string differences(const Results& got, const Results& expected,
                               double tolerance) {
  std::ostringstream out;
  if (got.size() != expected.size()) {
    out << got.size() << " results, expected " << expected.size() << '\n';
  }
  for (const NamedValues& want : expected) {
    const double error = relative_error(named(got, want.name), want.values);
    if (!(error <= tolerance)) out << want.name << ": " << error << '\n';
  }
  return out.str();
}

/// Where two vectors first differ in a bit, -1 where they do not; the shorter
/// length where sizes differ.
inline std::int64_t first_difference(const Values& a, const Values& b) {
  const std::size_t n = std::min(a.size(), b.size());
  for (std::size_t i = 0; i < n; ++i) {
    if (std::bit_cast<std::uint64_t>(a[i]) !=
        std::bit_cast<std::uint64_t>(b[i])) {
      return static_cast<std::int64_t>(i);
    }
  }
  return a.size() == b.size() ? -1 : static_cast<std::int64_t>(n);
}

/// The results that differ in a bit, one line each; empty when none does.
inline std::string bit_differences(const Results& got,
                                   const Results& expected) {
  std::ostringstream out;
  for (const NamedValues& want : expected) {
    const Values& values = named(got, want.name);
    const std::int64_t at = first_difference(values, want.values);
    if (at < 0) continue;
    out << want.name << " differs at " << at;
    if (values.size() == want.values.size()) {
      const auto i = static_cast<std::size_t>(at);
      out << ": " << values[i] << " and " << want.values[i];
    }
    out << '\n';
  }
  return out.str();
}

/// Rows [first, last) of a tensor whose first dimension counts tokens or
/// documents, `row` elements each.
inline Values rows_of(const Values& values, std::int64_t first,
                      std::int64_t last, std::int64_t row) {
  if (values.empty()) return {};
  return Values(values.begin() + first * row, values.begin() + last * row);
}

}  // namespace osdn::test
