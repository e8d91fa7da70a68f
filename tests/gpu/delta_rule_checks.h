#pragma once
// Judges one case of the delta rule: outputs and gradients against float64,
// intermediates against version 0, bits against a second run.

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "gpu/delta_rule_cases.h"
#include "kernels/delta_rule/layout.h"

namespace osdn::test {

/// Relative RMS bounds of outputs, gradients and of dg.
struct DeltaRuleBounds {
  double output = 5e-3, gradient = 8e-3, gate = 1e-2;
};

/// |got - expected| / |expected|; NaN anywhere gives NaN. An all-zero
/// expectation is compared absolutely.
inline double relative_rms(const reference::Values& got,
                           const reference::Values& expected) {
  if (got.size() != expected.size()) return NAN;
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
}

class Judge {
 public:
  explicit Judge(std::string name) : name_(std::move(name)) {}
  void check(const char* what, double error, double bound) {
    line_ += std::string(" ") + what + " " + format(error);
    if (!(error <= bound)) {
      failures.push_back(name_ + ": " + what + " is off by " + format(error) +
                         ", allowed " + format(bound));
    }
  }
  void require(bool holds, const char* what) {
    if (!holds) failures.push_back(name_ + ": not true: " + what);
  }
  void print() const { std::printf("%-34s%s\n", name_.c_str(), line_.c_str()); }
  std::vector<std::string> failures;

 private:
  static std::string format(double x) {
    char text[32];
    std::snprintf(text, sizeof(text), "%.1e", x);
    return text;
  }
  std::string name_, line_;
};

/// Reads [chunk head][...] arrays of both versions as float64. Entries of
/// unused chunks are left out.
inline reference::Values read_intermediate(
    const void* at, const kernels::delta_rule::Args& args, bool bf16,
    std::int64_t per_head) {
  std::int32_t used = 0;
  device_copy(&used, args.first_chunk + args.N, sizeof(used));
  const std::size_t count = static_cast<std::size_t>(used * args.HV * per_head);
  reference::Values values(count);
  if (bf16) {
    std::vector<std::uint16_t> host(count);
    device_copy(host.data(), at, count * 2);
    for (std::size_t i = 0; i < count; ++i) values[i] = from_bf16(host[i]);
  } else {
    std::vector<float> host(count);
    device_copy(host.data(), at, count * 4);
    values.assign(host.begin(), host.end());
  }
  return values;
}

/// n, P, S, Z, X, dS of the chunk version, each with its own bound, so that a
/// wrong scale is found where it arises.
inline void check_intermediates(Judge& judge, const DeltaRuleRun& chunk,
                                const DeltaRuleRun& plain, double slack) {
  const auto a = kernels::delta_rule::locate_intermediates(chunk.bwd.in);
  const auto b = kernels::delta_rule::locate_intermediates(plain.bwd.in);
  const std::int64_t C = kernels::delta_rule::kChunk;
  const std::int64_t KV = static_cast<std::int64_t>(a.K) * a.V;
  const auto compare = [&](const char* what, const void* x, const void* y,
                           std::int64_t per_head, double bound) {
    judge.check(what,
                relative_rms(read_intermediate(x, a, true, per_head),
                             read_intermediate(y, b, false, per_head)),
                bound * slack);
  };
  compare("n", a.n, b.n, C * C, 3e-3);
  compare("P", a.P, b.P, C * C, 4e-3);
  compare("S", a.S, b.S, KV, 5e-3);
  compare("Z", a.Z, b.Z, C * a.V, 5e-3);
  compare("X", a.X, b.X, C * a.V, 6e-3);
  compare("dS", a.dS, b.dS, KV, 6e-3);
}

inline bool same_bits(const DeltaRuleRun& a, const DeltaRuleRun& b) {
  return a.output_bytes() == b.output_bytes();
}

/// One case in one version.
inline std::vector<std::string> check_delta_rule(
    const DeltaRuleCase& c, kernels::DeltaRuleVersion version,
    const DeltaRuleBounds& bounds, bool with_intermediates, unsigned seed) {
  using kernels::Element;
  const bool plain = version == kernels::DeltaRuleVersion::kPlain;
  Judge judge((plain ? "plain " : "chunk ") + c.name);
  const DeltaRuleProblem p = make_problem(c, seed);
  DeltaRuleRun run(c, p, version, false);
  run.run();
  const reference::DeltaRuleOutput out = reference::delta_rule_forward(p.in);
  const reference::DeltaRuleGradients grad =
      reference::delta_rule_backward(p.in, p.grad_o, p.grad_state_T);
  const auto check = [&](const char* what, const DeviceBuffer& buffer,
                         const reference::Values& expected, Element element,
                         double bound) {
    if (expected.empty()) return;
    judge.check(what, relative_rms(to_host(buffer, element), expected), bound);
  };
  check("o", run.o, out.o, c.element, bounds.output);
  check("S_T", run.state_T, out.state_T, Element::kF32, bounds.output);
  check("dq", run.grad_q, grad.q, c.element, bounds.gradient);
  check("dk", run.grad_k, grad.k, c.element, bounds.gradient);
  check("dkt", run.grad_k_write, grad.k_write, c.element, bounds.gradient);
  check("dv", run.grad_v, grad.v, c.element, bounds.gradient);
  check("dbeta", run.grad_beta, grad.beta, Element::kF32, bounds.gradient);
  check("dg", run.grad_g, grad.g, Element::kF32, bounds.gate);
  check("dS0", run.grad_state0, grad.state0, Element::kF32, bounds.gradient);
  judge.require(run.guards_are_whole(), "nothing is written past an output");
  if (with_intermediates) {
    DeltaRuleRun yardstick(c, p, kernels::DeltaRuleVersion::kPlain, false);
    yardstick.run();
    check_intermediates(judge, run, yardstick, bounds.gradient / 8e-3);
  }
  DeltaRuleRun again(c, p, version, true);
  again.run();
  judge.require(same_bits(run, again),
                "a second run, with saved quantities, gives the same bits");
  judge.print();
  return judge.failures;
}

}  // namespace osdn::test
