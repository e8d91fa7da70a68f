#pragma once
// The delta rule token by token in float64, forward and reverse mode: the
// judge of every other implementation, so it shares no code and no chunk
// algebra with them.
//
// Per value head, with S [K,V] and the read before the write:
//   Sbar = Diag(exp(g_t)) S;  e_t = v_t - Sbar^T k_t
//   S    = Sbar + kt_t (beta_t e_t)^T;  o_t = K^{-1/2} S^T q_t
//
// Value head hv reads key head hv / (HV / H). With l2_norm, q and k are raw
// and x / sqrt(sum x^2 + 1e-6) is used; k_write is raw too and shares k's
// factor. All gradients are with respect to the inputs as given.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace osdn::reference {

using Values = std::vector<double>;

struct DeltaRuleInput {
  std::int64_t key_heads = 1, value_heads = 1, key_width = 1, value_width = 1;
  bool l2_norm = false;
  std::vector<std::int64_t> cu_seqlens;  ///< [N+1], first 0, last T
  Values q, k;                           ///< [T,H,K]
  Values k_write;                        ///< [T,HV,K], empty: k is written
  Values v;                              ///< [T,HV,V]
  Values beta;                           ///< [T,HV]
  Values g;       ///< empty, [T,HV] or [T,HV,K]; log decay, <= 0
  Values state0;  ///< empty (zeros) or [N,HV,K,V]

  std::int64_t tokens() const { return cu_seqlens.back(); }
  std::int64_t documents() const {
    return static_cast<std::int64_t>(cu_seqlens.size()) - 1;
  }
  bool gate_per_channel() const {
    return !g.empty() &&
           static_cast<std::int64_t>(g.size()) ==
               tokens() * value_heads * key_width &&
           key_width > 1;
  }
};

struct DeltaRuleOutput {
  Values o;        ///< [T,HV,V]
  Values state_T;  ///< [N,HV,K,V]
};

/// Gradients of the inputs of the same name; empty where the input is.
/// state0's is always given.
struct DeltaRuleGradients {
  Values q, k, k_write, v, beta, g, state0;
};

namespace detail {

inline constexpr double kNormEpsilon = 1e-6;

/// Runs body(i) for i in [0, count) on all cores.
template <typename Body>
void for_each_index(std::int64_t count, const Body& body) {
  const std::int64_t workers = std::min<std::int64_t>(
      count, std::max(1u, std::thread::hardware_concurrency()));
  std::vector<std::thread> threads;
  for (std::int64_t w = 0; w < workers; ++w) {
    threads.emplace_back([&, w] {
      for (std::int64_t i = w; i < count; i += workers) body(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// Factor of one row of length `width`.
inline double reciprocal_norm(const double* x, std::int64_t width, bool used) {
  if (!used) return 1.0;
  double sum = kNormEpsilon;
  for (std::int64_t i = 0; i < width; ++i) sum += x[i] * x[i];
  return 1.0 / std::sqrt(sum);
}

/// One value head of one document.
class Chain {
 public:
  Chain(const DeltaRuleInput& in, std::int64_t document, std::int64_t head)
      : in_(in),
        head_(head),
        key_head_(head / (in.value_heads / in.key_heads)),
        K_(in.key_width),
        V_(in.value_width),
        begin_(in.cu_seqlens[static_cast<std::size_t>(document)]),
        end_(in.cu_seqlens[static_cast<std::size_t>(document) + 1]),
        state_offset_((document * in.value_heads + head) * K_ * V_),
        channel_(in.gate_per_channel()) {}

  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }
  std::int64_t state_offset() const { return state_offset_; }

  Values start_state() const {
    if (in_.state0.empty()) {
      return Values(static_cast<std::size_t>(K_ * V_), 0.0);
    }
    const auto first = in_.state0.begin() + state_offset_;
    return Values(first, first + K_ * V_);
  }

  const double* q(std::int64_t t) const { return &in_.q[key_at(t)]; }
  const double* k(std::int64_t t) const { return &in_.k[key_at(t)]; }
  const double* kt(std::int64_t t) const {
    return in_.k_write.empty() ? k(t) : &in_.k_write[write_at(t)];
  }
  const double* v(std::int64_t t) const { return &in_.v[value_at(t)]; }
  double beta(std::int64_t t) const { return in_.beta[scalar_at(t)]; }
  double decay(std::int64_t t, std::int64_t c) const {
    if (in_.g.empty()) return 1.0;
    return std::exp(channel_ ? in_.g[write_at(t) + static_cast<std::size_t>(c)]
                             : in_.g[scalar_at(t)]);
  }

  std::size_t key_at(std::int64_t t) const {
    return static_cast<std::size_t>((t * in_.key_heads + key_head_) * K_);
  }
  std::size_t write_at(std::int64_t t) const {
    return static_cast<std::size_t>((t * in_.value_heads + head_) * K_);
  }
  std::size_t value_at(std::int64_t t) const {
    return static_cast<std::size_t>((t * in_.value_heads + head_) * V_);
  }
  std::size_t scalar_at(std::int64_t t) const {
    return static_cast<std::size_t>(t * in_.value_heads + head_);
  }

  /// Advances `S` over token t; leaves the residual in `e`.
  void step(std::int64_t t, Values& S, Values& e) const {
    const double rk = reciprocal_norm(k(t), K_, in_.l2_norm);
    for (std::int64_t j = 0; j < V_; ++j) e[j] = v(t)[j];
    for (std::int64_t c = 0; c < K_; ++c) {
      const double alpha = decay(t, c), key = rk * k(t)[c];
      double* row = &S[static_cast<std::size_t>(c * V_)];
      for (std::int64_t j = 0; j < V_; ++j) {
        row[j] *= alpha;
        e[j] -= row[j] * key;
      }
    }
    for (std::int64_t c = 0; c < K_; ++c) {
      const double write = rk * kt(t)[c] * beta(t);
      double* row = &S[static_cast<std::size_t>(c * V_)];
      for (std::int64_t j = 0; j < V_; ++j) row[j] += write * e[j];
    }
  }

 private:
  const DeltaRuleInput& in_;
  std::int64_t head_, key_head_, K_, V_, begin_, end_, state_offset_;
  bool channel_;
};

}  // namespace detail

inline DeltaRuleOutput delta_rule_forward(const DeltaRuleInput& in) {
  const std::int64_t K = in.key_width, V = in.value_width;
  const double scale = 1.0 / std::sqrt(static_cast<double>(K));
  DeltaRuleOutput out;
  out.o.assign(static_cast<std::size_t>(in.tokens() * in.value_heads * V), 0);
  out.state_T.assign(
      static_cast<std::size_t>(in.documents() * in.value_heads * K * V), 0);
  detail::for_each_index(
      in.documents() * in.value_heads, [&](std::int64_t unit) {
        const detail::Chain chain(in, unit / in.value_heads,
                                  unit % in.value_heads);
        Values S = chain.start_state();
        Values e(static_cast<std::size_t>(V));
        for (std::int64_t t = chain.begin(); t < chain.end(); ++t) {
          chain.step(t, S, e);
          const double* q = chain.q(t);
          const double rq = detail::reciprocal_norm(q, K, in.l2_norm);
          double* o = &out.o[chain.value_at(t)];
          for (std::int64_t c = 0; c < K; ++c) {
            const double query = scale * rq * q[c];
            for (std::int64_t j = 0; j < V; ++j) {
              o[j] += query * S[static_cast<std::size_t>(c * V + j)];
            }
          }
        }
        std::copy(S.begin(), S.end(),
                  out.state_T.begin() + chain.state_offset());
      });
  return out;
}

/// `grad_state_T` may be empty (zeros).
inline DeltaRuleGradients delta_rule_backward(const DeltaRuleInput& in,
                                              const Values& grad_o,
                                              const Values& grad_state_T) {
  const std::int64_t K = in.key_width, V = in.value_width;
  const std::int64_t N = in.documents();
  const std::size_t size = static_cast<std::size_t>(K * V);
  const double scale = 1.0 / std::sqrt(static_cast<double>(K));
  const bool channel = in.gate_per_channel();
  const std::int64_t group = in.value_heads / in.key_heads;
  DeltaRuleGradients grad;
  grad.q.assign(in.q.size(), 0);
  grad.k.assign(in.k.size(), 0);
  grad.k_write.assign(in.k_write.size(), 0);
  grad.v.assign(in.v.size(), 0);
  grad.beta.assign(in.beta.size(), 0);
  grad.g.assign(in.g.size(), 0);
  grad.state0.assign(static_cast<std::size_t>(N * in.value_heads) * size, 0);

  const auto run_head = [&](std::int64_t document, std::int64_t head) {
    const detail::Chain chain(in, document, head);
    constexpr std::int64_t kSpan = 64;  // states are kept every kSpan tokens
    const std::int64_t begin = chain.begin(), end = chain.end();
    Values e(static_cast<std::size_t>(V)), S = chain.start_state();
    std::vector<Values> starts;
    for (std::int64_t t = begin; t < end; ++t) {
      if ((t - begin) % kSpan == 0) starts.push_back(S);
      chain.step(t, S, e);
    }
    Values dS(size, 0.0);
    if (!grad_state_T.empty()) {
      std::copy_n(grad_state_T.begin() + chain.state_offset(), size,
                  dS.begin());
    }
    std::vector<Values> states, residuals;
    Values dkt(static_cast<std::size_t>(K)), dk(dkt), dq(dkt);
    Values de(static_cast<std::size_t>(V));
    for (std::int64_t t = end - 1; t >= begin; --t) {
      const std::int64_t span = (t - begin) / kSpan,
                         first = begin + span * kSpan;
      if (t == end - 1 || (t - begin) % kSpan == kSpan - 1) {
        // States after each token of the span, and before its first.
        states.assign(1, starts[static_cast<std::size_t>(span)]);
        residuals.clear();
        for (std::int64_t s = first; s <= t; ++s) {
          states.push_back(states.back());
          chain.step(s, states.back(), e);
          residuals.push_back(e);
        }
      }
      const Values& before = states[static_cast<std::size_t>(t - first)];
      const Values& after = states[static_cast<std::size_t>(t - first) + 1];
      const Values& err = residuals[static_cast<std::size_t>(t - first)];
      const double* q = chain.q(t);
      const double* k = chain.k(t);
      const double* kt = chain.kt(t);
      const double* go = &grad_o[chain.value_at(t)];
      const double rq = detail::reciprocal_norm(q, K, in.l2_norm);
      const double rk = detail::reciprocal_norm(k, K, in.l2_norm);
      const double beta = chain.beta(t);

      // o_t = scale S^T q, then the write S = Sbar + kt (beta e)^T.
      std::fill(de.begin(), de.end(), 0.0);  // first d(beta e)
      for (std::int64_t c = 0; c < K; ++c) {
        double dq_c = 0, dkt_c = 0;
        for (std::int64_t j = 0; j < V; ++j) {
          const std::size_t at = static_cast<std::size_t>(c * V + j);
          dq_c += scale * after[at] * go[j];
          dS[at] += scale * rq * q[c] * go[j];
          dkt_c += dS[at] * beta * err[j];
          de[j] += dS[at] * rk * kt[c];
        }
        dq[c] = dq_c;
        dkt[c] = dkt_c;
      }
      double dbeta = 0;
      for (std::int64_t j = 0; j < V; ++j) {
        dbeta += de[j] * err[j];
        de[j] *= beta;
        grad.v[chain.value_at(t) + static_cast<std::size_t>(j)] = de[j];
      }
      grad.beta[chain.scalar_at(t)] = dbeta;

      // e = v - Sbar^T k, then Sbar = Diag(exp(g)) S.
      double dg = 0;
      for (std::int64_t c = 0; c < K; ++c) {
        const double alpha = chain.decay(t, c);
        double dk_c = 0, dg_c = 0;
        for (std::int64_t j = 0; j < V; ++j) {
          const std::size_t at = static_cast<std::size_t>(c * V + j);
          const double s_bar = alpha * before[at];
          dk_c -= s_bar * de[j];
          const double ds_bar = dS[at] - rk * k[c] * de[j];
          dg_c += ds_bar * s_bar;
          dS[at] = alpha * ds_bar;
        }
        dk[c] = dk_c;
        dg += dg_c;
        if (channel) {
          grad.g[chain.write_at(t) + static_cast<std::size_t>(c)] = dg_c;
        }
      }
      if (!in.g.empty() && !channel) grad.g[chain.scalar_at(t)] = dg;

      // Normalisation: x r with r = (|x|^2 + eps)^{-1/2}, dr/dx = -r^3 x.
      double k_dot = 0, q_dot = 0;
      for (std::int64_t c = 0; c < K; ++c) {
        q_dot += q[c] * dq[c];
        k_dot += k[c] * dk[c] + kt[c] * dkt[c];
      }
      if (!in.l2_norm) q_dot = k_dot = 0;
      for (std::int64_t c = 0; c < K; ++c) {
        const std::size_t key = chain.key_at(t) + static_cast<std::size_t>(c);
        grad.q[key] += rq * dq[c] - rq * rq * rq * q_dot * q[c];
        grad.k[key] += rk * dk[c] - rk * rk * rk * k_dot * k[c];
        if (in.k_write.empty()) {
          grad.k[key] += rk * dkt[c];
        } else {
          grad.k_write[chain.write_at(t) + static_cast<std::size_t>(c)] =
              rk * dkt[c];
        }
      }
    }
    std::copy(dS.begin(), dS.end(), grad.state0.begin() + chain.state_offset());
  };
  // Value heads of one key head add into the same dq, dk: one thread.
  detail::for_each_index(N * in.key_heads, [&](std::int64_t unit) {
    for (std::int64_t i = 0; i < group; ++i) {
      run_head(unit / in.key_heads, (unit % in.key_heads) * group + i);
    }
  });
  return grad;
}

}  // namespace osdn::reference
