// Gradients of the operators, alone and composed, against central differences
// of their own outputs in fp64: the backward belongs to this very forward.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "ops/operator_cases.h"
#include "ops/run_operators.h"

namespace osdn::test {
namespace {

constexpr double kStep = 1e-5;
// Error of a central difference: step^2 plus rounding / step.
constexpr double kTolerance = 2e-8;

double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < b.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Compares `analytic` with the difference quotient of `loss` in each element
/// of `x`, which lies inside whatever `loss` looks at.
void expect_gradient(const std::string& name, Values& x, const Values& analytic,
                     const std::function<double()>& loss) {
  ASSERT_EQ(analytic.size(), x.size()) << name;
  Values numeric(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double value = x[i];
    x[i] = value + kStep;
    const double above = loss();
    x[i] = value - kStep;
    const double below = loss();
    x[i] = value;
    numeric[i] = (above - below) / (2 * kStep);
  }
  EXPECT_LT(relative_error(analytic, numeric), kTolerance) << name;
}

TEST(FiniteDifference, delta_rule) {
  for (Gate gate : {Gate::kNone, Gate::kHead, Gate::kChannel}) {
    for (bool l2_norm : {true, false}) {
      DeltaRuleCase c;
      c.HV = 2;
      c.K = 5;
      c.V = 4;
      c.lengths = {3, 0, 6};
      c.gate = gate;
      c.l2_norm = l2_norm;
      DeltaRuleData data = make_delta_rule(c);
      reference::DeltaRuleInput& in = data.in;
      const Results got = run_delta_rule(in, data.grad_o, data.grad_state_T);
      const auto loss = [&] {
        const Results out = run_delta_rule(in, {}, {});
        return dot(named(out, "o"), data.grad_o) +
               dot(named(out, "state_T"), data.grad_state_T);
      };
      expect_gradient("q", in.q, named(got, "grad_q"), loss);
      expect_gradient("k", in.k, named(got, "grad_k"), loss);
      expect_gradient("k_write", in.k_write, named(got, "grad_k_write"), loss);
      expect_gradient("v", in.v, named(got, "grad_v"), loss);
      expect_gradient("beta", in.beta, named(got, "grad_beta"), loss);
      expect_gradient("state0", in.state0, named(got, "grad_state0"), loss);
      if (gate != Gate::kNone) {
        expect_gradient("g", in.g, named(got, "grad_g"), loss);
      }
    }
  }
}

TEST(FiniteDifference, preconditioner) {
  for (bool beta_aware : {true, false}) {
    for (auto energy :
         {reference::KeyEnergy::kFloor, reference::KeyEnergy::kAdd,
          reference::KeyEnergy::kOff}) {
      for (bool l2_norm : {true, false}) {
        PreconditionerCase c;
        c.HV = 2;
        c.K = 5;
        c.lengths = {4, 0, 7};
        c.retention = true;
        c.beta_aware = beta_aware;
        c.energy = energy;
        c.l2_norm = l2_norm;
        c.lo = 0.1;  // kinks of the clip would spoil the difference quotient
        PreconditionerData data = make_preconditioner(c);
        reference::PreconditionerInput& in = data.in.recurrence;
        const Results got =
            run_preconditioner(data.in, data.grad_k_write, data.grad_d_T);
        const auto loss = [&] {
          const Results out = run_preconditioner(data.in, {}, {});
          return dot(named(out, "k_write"), data.grad_k_write) +
                 dot(named(out, "d_T"), data.grad_d_T);
        };
        expect_gradient("k", in.k, named(got, "grad_k"), loss);
        expect_gradient("r", in.r, named(got, "grad_r"), loss);
        expect_gradient("d0", in.d0, named(got, "grad_d0"), loss);
        if (beta_aware) {
          expect_gradient("beta", in.beta, named(got, "grad_beta"), loss);
        } else {
          EXPECT_EQ(named(got, "grad_beta"), Values(in.beta.size(), 0.0));
        }
      }
    }
  }
}

TEST(FiniteDifference, K11_preconditioner_and_delta_rule_composed) {
  DeltaRuleCase c;
  c.HV = 2;
  c.K = 6;
  c.V = 4;
  c.lengths = {5, 4};
  c.gate = Gate::kChannel;
  c.k_write = false;
  DeltaRuleData data = make_delta_rule(c);
  PreconditionerCase pc;
  pc.HV = 2;
  pc.K = 6;
  pc.lengths = c.lengths;
  pc.retention = true;
  pc.lo = 0.1;
  PreconditionerData pre = make_preconditioner(pc);
  const auto run = [&](const Values& grad_o, const Values& grad_state_T) {
    return run_layer_core(data.in, pre.in, grad_o, grad_state_T);
  };
  const Results got = run(data.grad_o, data.grad_state_T);
  const auto loss = [&] {
    const Results out = run({}, {});
    return dot(named(out, "o"), data.grad_o) +
           dot(named(out, "state_T"), data.grad_state_T);
  };
  expect_gradient("q", data.in.q, named(got, "grad_q"), loss);
  expect_gradient("k", data.in.k, named(got, "grad_k"), loss);
  expect_gradient("v", data.in.v, named(got, "grad_v"), loss);
  expect_gradient("beta", data.in.beta, named(got, "grad_beta"), loss);
  expect_gradient("g", data.in.g, named(got, "grad_g"), loss);
  expect_gradient("r", pre.in.recurrence.r, named(got, "grad_r"), loss);
  expect_gradient("d0", pre.in.recurrence.d0, named(got, "grad_d0"), loss);
}

TEST(FiniteDifference, short_conv) {
  for (std::int64_t taps : {1, 3, 4, 8}) {
    for (bool silu : {true, false}) {
      ShortConvInput in;
      in.channels = 3;
      in.taps = taps;
      in.silu = silu;
      in.cu_seqlens = packed({2, 0, 9});
      in.x = normal_values(1, 11 * 3);
      in.weight = normal_values(2, 3 * taps);
      in.state0 = normal_values(3, 3 * 3 * (taps - 1));
      const Values grad_y = normal_values(4, 11 * 3);
      const Values grad_state = normal_values(5, 3 * 3 * (taps - 1));
      const Results got = run_short_conv(in, grad_y, grad_state);
      const auto loss = [&] {
        const Results out = run_short_conv(in, {}, {});
        return dot(named(out, "y"), grad_y) +
               dot(named(out, "state_T"), grad_state);
      };
      expect_gradient("x", in.x, named(got, "grad_x"), loss);
      expect_gradient("weight", in.weight, named(got, "grad_weight"), loss);
      if (taps > 1) {
        expect_gradient("state0", in.state0, named(got, "grad_state0"), loss);
      }
    }
  }
}

TEST(FiniteDifference, head_loss) {
  HeadLossInput in;
  in.width = 3;
  in.vocab = 5;
  in.hidden = normal_values(1, 4 * 3);
  in.weight = normal_values(2, 5 * 3);
  in.labels = {4, -100, 0, 2};
  const Results got = run_head_loss(in, 0.7);
  const auto loss = [&] { return named(run_head_loss(in, 0.7), "loss")[0]; };
  expect_gradient("hidden", in.hidden, named(got, "grad_hidden"), loss);
  expect_gradient("weight", in.weight, named(got, "grad_weight"), loss);
}

}  // namespace
}  // namespace osdn::test
