// The properties of the preconditioner's theory, math.md 7, on the operators.
// h_t(d) = ((1 - beta <d,k2>)^2 - 1) / (2 |k|^2); q_t = (1 - beta <d,k2>)^2 is
// the share of its own squared error that a token's write leaves.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/operator_cases.h"
#include "ops/run_operators.h"

namespace osdn::test {
namespace {

/// A stream of unit keys of one head in fp64, and d as the operator trains it.
class Stream {
 public:
  explicit Stream(const PreconditionerCase& c)
      : case_(c), data_(make_preconditioner(c)) {
    Values& k = data_.in.recurrence.k;
    const auto K = static_cast<std::size_t>(c.K);
    for (std::size_t row = 0; row < k.size(); row += K) {
      double norm = 0;
      for (std::size_t i = 0; i < K; ++i) norm += k[row + i] * k[row + i];
      for (std::size_t i = 0; i < K; ++i) k[row + i] /= std::sqrt(norm);
    }
    data_.in.l2_norm = false;
  }

  reference::PreconditionerInput& in() { return data_.in.recurrence; }
  void learn() { d_ = named(run_preconditioner(data_.in, {}, {}), "d"); }

  std::int64_t tokens() const { return data_.in.recurrence.tokens(); }
  double beta(std::int64_t t) const {
    return data_.in.recurrence.beta[static_cast<std::size_t>(t)];
  }
  double k2(std::int64_t t, std::int64_t c) const {
    const double k =
        data_.in.recurrence.k[static_cast<std::size_t>(t * case_.K + c)];
    return k * k;
  }
  Values d(std::int64_t t) const { return rows_of(d_, t, t + 1, case_.K); }
  double energy(std::int64_t t, const Values& d) const {
    double sum = 0;
    for (std::int64_t c = 0; c < case_.K; ++c) {
      sum += d[static_cast<std::size_t>(c)] * k2(t, c);
    }
    return sum;
  }
  double q(std::int64_t t, const Values& d) const {
    const double left = 1 - beta(t) * energy(t, d);
    return left * left;
  }
  double h(std::int64_t t, const Values& d) const {
    return (q(t, d) - 1) / (2 * norm2(t));
  }
  Values gradient(std::int64_t t, const Values& d) const {
    const double factor = -beta(t) * (1 - beta(t) * energy(t, d)) / norm2(t);
    Values out(d.size());
    for (std::int64_t c = 0; c < case_.K; ++c) {
      out[static_cast<std::size_t>(c)] = factor * k2(t, c);
    }
    return out;
  }
  double norm2(std::int64_t t) const {
    return energy(t, Values(static_cast<std::size_t>(case_.K), 1.0));
  }
  Values key(std::int64_t t) const {
    return rows_of(data_.in.recurrence.k, t, t + 1, case_.K);
  }

 private:
  PreconditionerCase case_;
  PreconditionerData data_;
  Values d_;
};

double squared_distance(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}
double squared_norm(const Values& a) {
  return squared_distance(a, Values(a.size(), 0.0));
}

PreconditionerCase stream_case() {
  PreconditionerCase c;
  c.K = 16;
  c.lengths = {200};
  c.eta = 0.5;
  c.beta_lo = 0.05;
  c.beta_hi = 0.95;
  return c;
}

// (f(S_t) - f(Sbar)) / |grad f(Sbar)|^2 = h_t(d_t), and the error that is left
// is q_t of the error that was, whatever state and value are.
TEST(PreconditionerProperties, P1_share_left_is_one_plus_two_h) {
  PreconditionerCase c = stream_case();
  Stream stream(c);
  stream.learn();
  DeltaRuleCase dc;
  dc.K = c.K;
  dc.V = 6;
  dc.lengths = {1};
  for (std::int64_t t = 0; t < 50; ++t) {
    dc.seed = static_cast<std::uint64_t>(t);
    DeltaRuleData data = make_delta_rule(dc);
    const Values d = stream.d(t), k = stream.key(t);
    data.in.l2_norm = false;
    data.in.k = k;
    data.in.beta = {stream.beta(t)};
    for (std::size_t i = 0; i < k.size(); ++i) data.in.k_write[i] = d[i] * k[i];
    const Values after = named(run_delta_rule(data.in, {}, {}), "state_T");
    const auto squared_error = [&](const Values& state) {
      double sum = 0;
      for (std::size_t j = 0; j < 6; ++j) {
        double e = -data.in.v[j];
        for (std::size_t i = 0; i < k.size(); ++i) e += state[i * 6 + j] * k[i];
        sum += e * e;
      }
      return sum;
    };
    const double share = squared_error(after) / squared_error(data.in.state0);
    EXPECT_NEAR(share, stream.q(t, d), 1e-12);
    EXPECT_NEAR(share, 1 + 2 * stream.norm2(t) * stream.h(t, d), 1e-12);
  }
}

TEST(PreconditionerProperties, P2_h_is_convex_with_a_bounded_hessian) {
  Stream stream(stream_case());
  Xoshiro256 random(3);
  for (std::int64_t t = 0; t < 200; ++t) {
    Values a(16), b(16), middle(16);
    for (std::size_t i = 0; i < 16; ++i) {
      a[i] = 0.5 + 1.5 * random.uniform();
      b[i] = 0.5 + 1.5 * random.uniform();
      middle[i] = (a[i] + b[i]) / 2;
    }
    const double bend =
        (stream.h(t, a) + stream.h(t, b)) / 2 - stream.h(t, middle);
    EXPECT_GE(bend, -1e-15);
    // bend = u^T H u / 8 for u = a - b, with |H| <= beta^2 |k|^2 <= 1.
    const double bound = stream.beta(t) * stream.beta(t) * stream.norm2(t);
    EXPECT_LE(bound, 1);
    EXPECT_LE(8 * bend, bound * squared_distance(a, b) + 1e-15);
  }
}

TEST(PreconditionerProperties, P2_the_operator_descends_along_minus_grad_h) {
  PreconditionerCase c = stream_case();
  c.lo = -1e9;
  c.hi = 1e9;
  Stream stream(c);
  stream.learn();
  for (std::int64_t t = 0; t + 1 < stream.tokens(); ++t) {
    Values expected = stream.d(t);
    const Values gradient = stream.gradient(t, expected);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] -= c.eta * gradient[i];
    }
    EXPECT_LT(relative_error(stream.d(t + 1), expected), 1e-14);
    EXPECT_LE(stream.h(t, stream.d(t + 1)), stream.h(t, stream.d(t)));
  }
}

TEST(PreconditionerProperties, P3_every_write_leaves_less_than_all) {
  Stream stream(stream_case());
  stream.learn();
  for (std::int64_t t = 0; t < stream.tokens(); ++t) {
    EXPECT_LT(stream.q(t, stream.d(t)), 1) << t;
  }
}

TEST(PreconditionerProperties, P4_product_below_the_mean_to_the_power) {
  Stream stream(stream_case());
  stream.learn();
  double log_product = 0, sum = 0;
  for (std::int64_t t = 0; t < stream.tokens(); ++t) {
    const double q = stream.q(t, stream.d(t));
    log_product += std::log(q);
    sum += q;
    const auto count = static_cast<double>(t + 1);
    EXPECT_LE(log_product, count * std::log(sum / count) + 1e-9);
  }
}

TEST(PreconditionerProperties, P5_regret_against_any_fixed_d) {
  PreconditionerCase c = stream_case();
  Stream stream(c);
  stream.learn();
  Xoshiro256 random(5);
  for (int trial = 0; trial < 20; ++trial) {
    Values best(16);
    for (double& x : best) x = c.lo + (c.hi - c.lo) * random.uniform();
    double regret = 0, gradients = 0;
    for (std::int64_t t = 0; t < stream.tokens(); ++t) {
      const Values d = stream.d(t);
      regret += stream.h(t, d) - stream.h(t, best);
      gradients += squared_norm(stream.gradient(t, d));
      EXPECT_LE(regret, squared_distance(stream.d(0), best) / (2 * c.eta) +
                            c.eta / 2 * gradients + 1e-12);
    }
  }
}

TEST(PreconditionerProperties, P6_contraction_on_a_realisable_stream) {
  PreconditionerCase c = stream_case();
  c.lengths = {2000};
  c.eta = 1;
  c.hi = 2;
  Stream stream(c);
  Xoshiro256 random(6);
  Values best(16);
  for (double& x : best) x = 0.8 + 1.2 * random.uniform();
  double largest = 0;
  for (std::int64_t t = 0; t < stream.tokens(); ++t) {
    double& beta = stream.in().beta[static_cast<std::size_t>(t)];
    beta = 1 / stream.energy(t, best);
    largest = std::max(largest, beta * beta);
  }
  ASSERT_LT(c.eta * largest, 2);
  stream.learn();
  const double bound =
      squared_distance(stream.d(0), best) / (c.eta * (2 - c.eta * largest));
  double sum = 0, log_product = 0,
         distance = squared_distance(stream.d(0), best);
  for (std::int64_t t = 0; t < stream.tokens(); ++t) {
    const Values d = stream.d(t);
    const double q = stream.q(t, d);
    sum += q;
    log_product += std::log(q);
    EXPECT_LE(sum, bound);
    const auto count = static_cast<double>(t + 1);
    EXPECT_LE(log_product, count * std::log(bound / count));
    const double now = squared_distance(d, best);
    EXPECT_LE(now, distance + 1e-15);
    distance = now;
  }
  // The stream is one on which the bound says something.
  EXPECT_GT(sum, 0.05 * bound);
}

// F(S) = 1/2 E |S^T k - v|^2 over the stream: one step with Sigma^+ from the
// left, Sigma = E k k^T, reaches a minimiser. The step is made with the delta
// rule itself: its write keys are Sigma^+ k, its read state stays S.
TEST(PreconditionerProperties, P7_right_newton_step_is_a_minimiser) {
  constexpr std::int64_t K = 6, V = 3, T = 12;
  constexpr std::int64_t kRank = 4;  // keys span a subspace: Sigma is singular
  const Values basis = normal_values(1, kRank * K);
  const Values weights = normal_values(2, T * kRank);
  const Values v = normal_values(3, T * V);
  const Values state = normal_values(4, K * V);
  Values k(T * K, 0.0);
  for (std::size_t t = 0; t < T; ++t) {
    for (std::size_t r = 0; r < kRank; ++r) {
      for (std::size_t i = 0; i < K; ++i) {
        k[t * K + i] += weights[t * kRank + r] * basis[r * K + i];
      }
    }
  }
  // Sigma^+ by gradient flow of the normal equations on the span: solve
  // Sigma x = b for b in the span with conjugate gradients, exact in kRank
  // steps.
  const auto sigma_times = [&](const Values& x) {
    Values out(K, 0.0);
    for (std::size_t t = 0; t < T; ++t) {
      double dot = 0;
      for (std::size_t i = 0; i < K; ++i) dot += k[t * K + i] * x[i];
      for (std::size_t i = 0; i < K; ++i) out[i] += k[t * K + i] * dot / T;
    }
    return out;
  };
  const auto pseudo_inverse_times = [&](const Values& b) {
    Values x(K, 0.0), r = b, p = b;
    for (int step = 0; step < 20 && squared_norm(r) > 1e-28; ++step) {
      const Values ap = sigma_times(p);
      double pap = 0;
      for (std::size_t i = 0; i < K; ++i) pap += p[i] * ap[i];
      const double old = squared_norm(r), a = old / pap;
      for (std::size_t i = 0; i < K; ++i) {
        x[i] += a * p[i];
        r[i] -= a * ap[i];
      }
      const double ratio = squared_norm(r) / old;
      for (std::size_t i = 0; i < K; ++i) p[i] = r[i] + ratio * p[i];
    }
    return x;
  };

  // One document a token, all from the same S: each final state is S plus
  // Sigma^+ k (v - S^T k)^T. Their mean is the Newton step.
  DeltaRuleCase c;
  c.K = K;
  c.V = V;
  c.lengths.assign(T, 1);
  DeltaRuleData data = make_delta_rule(c);
  data.in.l2_norm = false;
  data.in.k = k;
  data.in.v = v;
  data.in.beta.assign(T, 1.0);
  data.in.state0.clear();
  data.in.k_write.clear();
  for (std::int64_t t = 0; t < T; ++t) {
    const Values write = pseudo_inverse_times(rows_of(k, t, t + 1, K));
    data.in.k_write.insert(data.in.k_write.end(), write.begin(), write.end());
    data.in.state0.insert(data.in.state0.end(), state.begin(), state.end());
  }
  const Values states = named(run_delta_rule(data.in, {}, {}), "state_T");
  Values newton(K * V, 0.0);
  for (std::size_t i = 0; i < states.size(); ++i) {
    newton[i % (K * V)] += states[i] / T;
  }

  // grad F(newton) = E k (newton^T k - v)^T vanishes.
  const auto gradient = [&](const Values& s) {
    Values out(K * V, 0.0);
    for (std::size_t t = 0; t < T; ++t) {
      for (std::size_t j = 0; j < V; ++j) {
        double e = -v[t * V + j];
        for (std::size_t i = 0; i < K; ++i) e += s[i * V + j] * k[t * K + i];
        for (std::size_t i = 0; i < K; ++i) {
          out[i * V + j] += k[t * K + i] * e / T;
        }
      }
    }
    return out;
  };
  EXPECT_GT(squared_norm(gradient(state)), 0.1);
  EXPECT_LT(squared_norm(gradient(newton)), 1e-20);
}

TEST(PreconditionerProperties, P8_no_write_leaves_the_state_and_shrinks_d) {
  for (bool zero_key : {false, true}) {
    PreconditionerCase c;
    c.retention = true;
    c.lengths = {30};
    c.lo = 0.7;
    PreconditionerData pre = make_preconditioner(c);
    if (zero_key) {
      pre.in.recurrence.k.assign(pre.in.recurrence.k.size(), 0.0);
    } else {
      pre.in.recurrence.beta.assign(pre.in.recurrence.beta.size(), 0.0);
    }
    const Values d = named(run_preconditioner(pre.in, {}, {}), "d");
    for (std::int64_t t = 0; t + 1 < 30; ++t) {
      for (std::int64_t i = 0; i < c.K; ++i) {
        const double before = d[static_cast<std::size_t>(t * c.K + i)];
        const double r = pre.in.recurrence.r[static_cast<std::size_t>(t)];
        ASSERT_EQ(d[static_cast<std::size_t>((t + 1) * c.K + i)],
                  std::clamp(r * before, 0.7, 2.0));
      }
    }
    DeltaRuleCase dc;
    dc.lengths = {30};
    DeltaRuleData data = make_delta_rule(dc);
    data.in.k = pre.in.recurrence.k;
    data.in.beta = pre.in.recurrence.beta;
    data.in.k_write = data.in.k;
    EXPECT_EQ(named(run_delta_rule(data.in, {}, {}), "state_T"),
              data.in.state0);
  }
}

}  // namespace
}  // namespace osdn::test
