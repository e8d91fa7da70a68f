#include <algorithm>
#include <cstdint>
#include <vector>

#include "chunks.h"
#include "delta_rule_chunk.h"
#include "delta_rule_cpu.h"
#include "dot.h"
#include "parallel_tasks.h"
#include "small_gemm.h"

namespace osdn::ops {
namespace {

/// Scratch of one thread; runs whole documents of the value heads of one key
/// head. Formulas and names as in math.md 3.
template <typename T>
class BackwardWorker {
 public:
  BackwardWorker(const DeltaRuleSizes& sizes, const DeltaRuleForward<T>& data,
                 const DeltaRuleBackward<T>& grads)
      : s_(sizes), data_(data), grads_(grads), chunk_(sizes, data) {
    for (auto* buffer : {&q_start_, &k_start_, &k_end_, &grad_q_, &grad_k_,
                         &grad_k_write_, &product_q_, &product_k_}) {
      *buffer = chunk_.key_buffer();
    }
    for (auto* buffer : {&u_, &grad_o_, &x_, &beta_x_}) {
      *buffer = chunk_.value_buffer();
    }
    grad_A_ = chunk_.A;
    grad_P_ = chunk_.P;
    grad_state_ = chunk_.state_buffer();
    grad_gate_.assign(at(Kp_), T(0));
    transposed_.assign(at(std::max(Kp_, kChunk) * Vp_), T(0));
  }

  /// All chunks, last to first, of document n and key head h. The value heads
  /// of a group add to one grad_q and grad_k.
  void run(const Documents& documents, std::int64_t n, std::int64_t h,
           std::int64_t first_chunk) {
    const std::int64_t group = s_.HV / s_.H;
    const std::int64_t begin = documents.begin(n);
    const std::int64_t end = documents.end(n);
    const std::int64_t chunks = (end - begin + kChunk - 1) / kChunk;
    for (std::int64_t member = 0; member < group; ++member) {
      const std::int64_t hv = h * group + member;
      chunk_.load_state(grads_.grad_state_T, n, hv, grad_state_);
      for (std::int64_t ic = chunks - 1; ic >= 0; --ic) {
        const std::int64_t t = begin + ic * kChunk;
        const std::int64_t rows = std::min(kChunk, end - t);
        chunk_.load(t, rows, hv);
        chunk_.load_state(data_.states, first_chunk + ic, hv, chunk_.state);
        chunk_.load_values(data_.u, t, rows, hv, u_);
        chunk_.load_values(grads_.grad_o, t, rows, hv, grad_o_);
        backward_chunk(t, rows, hv, member == 0);
      }
      if (grads_.grad_state0) {
        chunk_.store_state(grad_state_, grads_.grad_state0, n, hv);
      }
    }
  }

 private:
  void backward_chunk(std::int64_t t, std::int64_t rows, std::int64_t hv,
                      bool first_of_group) {
    DeltaRuleChunk<T>& c = chunk_;
    c.gate.from_start(c.q.data(), q_start_.data());
    c.gate.from_start(c.k.data(), k_start_.data());
    c.gate.to_end(c.k_write.data(), k_end_.data());
    // From here on grad_o carries the K^-1/2 of the output.
    for (std::int64_t i = 0; i < rows * Vp_; ++i) grad_o_[at(i)] *= c.scale;

    // dU = P^T dO + K_write_end dS', then X = L^-T dU in its place.
    std::fill(x_.begin(), x_.end(), T(0));
    gemm_add<T>(rows, Vp_, rows, {c.P.data(), 1, kChunk}, grad_o_.data(), Vp_,
                x_.data(), Vp_);
    gemm_add<T>(rows, Vp_, Kp_, {k_end_.data(), Kp_, 1}, grad_state_.data(),
                Vp_, x_.data(), Vp_);
    solve_transposed(rows);

    // V - K_start S - A U, the error that beta scales, in place of V.
    gemm_subtract<T>(rows, Vp_, Kp_, {k_start_.data(), Kp_, 1}, c.state.data(),
                     Vp_, c.v.data(), Vp_);
    gemm_subtract<T>(rows, Vp_, rows, {c.A.data(), kChunk, 1}, u_.data(), Vp_,
                     c.v.data(), Vp_);
    for (std::int64_t i = 0; i < rows; ++i) {
      grads_.grad_beta[(t + i) * s_.HV + hv] =
          dot(x_.data() + i * Vp_, c.v.data() + i * Vp_, Vp_);
    }
    // dV = bX
    c.store_values(beta_x_, grads_.grad_v, t, rows, hv);

    // dA = strict_lower(-bX U^T), dP = lower(dO U^T)
    transpose(u_, rows, Vp_, kChunk);
    std::fill(grad_A_.begin(), grad_A_.end(), T(0));
    std::fill(grad_P_.begin(), grad_P_.end(), T(0));
    gemm_subtract<T>(rows, kChunk, Vp_, {beta_x_.data(), Vp_, 1},
                     transposed_.data(), kChunk, grad_A_.data(), kChunk);
    gemm_add<T>(rows, kChunk, Vp_, {grad_o_.data(), Vp_, 1}, transposed_.data(),
                kChunk, grad_P_.data(), kChunk);
    for (std::int64_t i = 0; i < rows; ++i) {
      std::fill_n(grad_A_.data() + i * kChunk + i, kChunk - i, T(0));
      std::fill_n(grad_P_.data() + i * kChunk + i + 1, kChunk - i - 1, T(0));
    }

    // dQ = (dO S^T) exp G + dP (.) kt;  dK = (-bX S^T) exp G + dA (.) kt
    transpose(c.state, Kp_, Vp_, Kp_);
    std::fill(product_q_.begin(), product_q_.end(), T(0));
    std::fill(product_k_.begin(), product_k_.end(), T(0));
    gemm_add<T>(rows, Kp_, Vp_, {grad_o_.data(), Vp_, 1}, transposed_.data(),
                Kp_, product_q_.data(), Kp_);
    gemm_subtract<T>(rows, Kp_, Vp_, {beta_x_.data(), Vp_, 1},
                     transposed_.data(), Kp_, product_k_.data(), Kp_);
    c.gate.from_start(product_q_.data(), grad_q_.data());
    c.gate.from_start(product_k_.data(), grad_k_.data());
    c.gate.left_apply(grad_P_.data(), grad_A_.data(), c.k_write.data(),
                      grad_q_.data(), grad_k_.data());

    // dkt = (U dS'^T) exp(G_C - G) + dA^T (.) K + dP^T (.) Q
    transpose(grad_state_, Kp_, Vp_, Kp_);
    std::fill(product_q_.begin(), product_q_.end(), T(0));
    gemm_add<T>(rows, Kp_, Vp_, {u_.data(), Vp_, 1}, transposed_.data(), Kp_,
                product_q_.data(), Kp_);
    c.gate.to_end(product_q_.data(), grad_k_write_.data());
    if (grads_.grad_g) start_gate_gradient(rows);
    c.gate.right_apply(grad_A_.data(), c.k.data(), grad_k_write_.data());
    c.gate.right_apply(grad_P_.data(), c.q.data(), grad_k_write_.data());
    if (grads_.grad_g) store_gate_gradient(t, rows, hv);

    // dS = Diag(exp G_C) dS' + Q_start^T dO - K_start^T bX
    c.decay(grad_state_);
    gemm_add<T>(Kp_, Vp_, rows, {q_start_.data(), 1, Kp_}, grad_o_.data(), Vp_,
                grad_state_.data(), Vp_);
    gemm_subtract<T>(Kp_, Vp_, rows, {k_start_.data(), 1, Kp_}, beta_x_.data(),
                     Vp_, grad_state_.data(), Vp_);
    store_key_gradients(t, rows, hv, first_of_group);
  }

  /// X_i = dU_i - sum_{j>i} A_ji bX_j with bX_j = beta_j X_j, last row first.
  void solve_transposed(std::int64_t rows) {
    const DeltaRuleChunk<T>& c = chunk_;
    for (std::int64_t first = (rows - 1) / kSubBlock * kSubBlock; first >= 0;
         first -= kSubBlock) {
      const std::int64_t last = std::min(first + kSubBlock, rows);
      gemm_subtract<T>(last - first, Vp_, rows - last,
                       {c.A.data() + last * kChunk + first, 1, kChunk},
                       beta_x_.data() + last * Vp_, Vp_,
                       x_.data() + first * Vp_, Vp_);
      for (std::int64_t i = last - 1; i >= first; --i) {
        T* x = x_.data() + i * Vp_;
        gemm_subtract<T>(1, Vp_, last - 1 - i,
                         {c.A.data() + (i + 1) * kChunk + i, 1, kChunk},
                         beta_x_.data() + (i + 1) * Vp_, Vp_, x, Vp_);
        T* scaled = beta_x_.data() + i * Vp_;
        const T beta = c.beta[at(i)];
        for (std::int64_t e = 0; e < Vp_; ++e) scaled[e] = beta * x[e];
      }
    }
  }

  /// The part of dG that belongs to the chunk's last row, through exp(G_C):
  /// all others follow it in the reverse running sum, which starts here.
  void start_gate_gradient(std::int64_t rows) {
    const DeltaRuleChunk<T>& c = chunk_;
    for (std::int64_t e = 0; e < s_.K; ++e) {
      grad_gate_[at(e)] =
          c.gate.over_chunk(e) *
          dot(c.state.data() + e * Vp_, grad_state_.data() + e * Vp_, Vp_);
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* kw = c.k_write.data() + i * Kp_;
      const T* dkw = grad_k_write_.data() + i * Kp_;
      for (std::int64_t e = 0; e < s_.K; ++e) {
        grad_gate_[at(e)] += kw[e] * dkw[e];
      }
    }
  }

  /// dG = Q dQ + K dK - kt dkt, then its reverse running sum.
  void store_gate_gradient(std::int64_t t, std::int64_t rows, std::int64_t hv) {
    const DeltaRuleChunk<T>& c = chunk_;
    T* sum = grad_gate_.data();
    for (std::int64_t i = rows - 1; i >= 0; --i) {
      const T* q = c.q.data() + i * Kp_;
      const T* k = c.k.data() + i * Kp_;
      const T* kw = c.k_write.data() + i * Kp_;
      const T* dq = grad_q_.data() + i * Kp_;
      const T* dk = grad_k_.data() + i * Kp_;
      const T* dkw = grad_k_write_.data() + i * Kp_;
      for (std::int64_t e = 0; e < s_.K; ++e) {
        sum[e] += q[e] * dq[e] + k[e] * dk[e] - kw[e] * dkw[e];
      }
      const std::int64_t token = (t + i) * s_.HV + hv;
      if (s_.gate == GateKind::kChannel) {
        std::copy(sum, sum + s_.K, grads_.grad_g + token * s_.K);
      } else {
        T total = 0;
        for (std::int64_t e = 0; e < s_.K; ++e) total += sum[e];
        grads_.grad_g[token] = total;
      }
    }
  }

  /// Through the L2 norm where it is fused, then into the outputs.
  void store_key_gradients(std::int64_t t, std::int64_t rows, std::int64_t hv,
                           bool first_of_group) {
    const DeltaRuleChunk<T>& c = chunk_;
    const std::int64_t h = hv / (s_.HV / s_.H);
    for (std::int64_t i = 0; i < rows; ++i) {
      T* dq = grad_q_.data() + i * Kp_;
      T* dk = grad_k_.data() + i * Kp_;
      T* dkw = grad_k_write_.data() + i * Kp_;
      const T* q = c.q.data() + i * Kp_;
      const T* k = c.k.data() + i * Kp_;
      if (!data_.k_write) {
        for (std::int64_t e = 0; e < s_.K; ++e) dk[e] += dkw[e];
      }
      if (s_.l2_norm) {
        const T q_rstd = c.q_rstd[at(i)], k_rstd = c.k_rstd[at(i)];
        const T q_dot = dot(q, dq, s_.K);
        T k_dot = dot(k, dk, s_.K);
        if (data_.k_write) {
          k_dot += dot(c.k_write.data() + i * Kp_, dkw, s_.K);
        }
        for (std::int64_t e = 0; e < s_.K; ++e) {
          dq[e] = q_rstd * (dq[e] - q[e] * q_dot);
          dk[e] = k_rstd * (dk[e] - k[e] * k_dot);
          dkw[e] *= k_rstd;
        }
      }
      T* to_q = grads_.grad_q + ((t + i) * s_.H + h) * s_.K;
      T* to_k = grads_.grad_k + ((t + i) * s_.H + h) * s_.K;
      if (first_of_group) {
        std::copy(dq, dq + s_.K, to_q);
        std::copy(dk, dk + s_.K, to_k);
      } else {
        for (std::int64_t e = 0; e < s_.K; ++e) to_q[e] += dq[e];
        for (std::int64_t e = 0; e < s_.K; ++e) to_k[e] += dk[e];
      }
      if (data_.k_write) {
        std::copy(dkw, dkw + s_.K,
                  grads_.grad_k_write + ((t + i) * s_.HV + hv) * s_.K);
      }
    }
  }

  /// transposed_[c][i] = x[i][c] for x of `rows` x `columns`, leading
  /// dimension `ld` >= rows, the rest zero. By tiles, whose cache lines are
  /// all used before they leave.
  void transpose(const std::vector<T>& x, std::int64_t rows,
                 std::int64_t columns, std::int64_t ld) {
    constexpr std::int64_t kTile = kVectorLength<T>;
    for (std::int64_t c0 = 0; c0 < columns; c0 += kTile) {
      for (std::int64_t i0 = 0; i0 < rows; i0 += kTile) {
        const std::int64_t i1 = std::min(i0 + kTile, rows);
        for (std::int64_t c = c0; c < c0 + kTile; ++c) {
          for (std::int64_t i = i0; i < i1; ++i) {
            transposed_[at(c * ld + i)] = x[at(i * columns + c)];
          }
        }
      }
      for (std::int64_t c = c0; c < c0 + kTile; ++c) {
        std::fill_n(transposed_.data() + c * ld + rows, ld - rows, T(0));
      }
    }
  }

  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  const DeltaRuleSizes s_;
  const DeltaRuleForward<T> data_;
  const DeltaRuleBackward<T> grads_;
  DeltaRuleChunk<T> chunk_;
  const std::int64_t Kp_ = chunk_.Kp, Vp_ = chunk_.Vp;
  std::vector<T> q_start_, k_start_, k_end_;  // with the decay to an edge
  std::vector<T> grad_q_, grad_k_, grad_k_write_, product_q_, product_k_;
  std::vector<T> u_, grad_o_, x_, beta_x_;
  std::vector<T> grad_A_, grad_P_;
  std::vector<T> grad_state_, transposed_, grad_gate_;
};

}  // namespace

template <typename T>
void delta_rule_backward_cpu(const DeltaRuleSizes& sizes,
                             const Documents& documents,
                             const DeltaRuleForward<T>& data,
                             const DeltaRuleBackward<T>& grads) {
  const auto offsets = chunk_offsets(documents);
  parallel_tasks(
      documents.count() * sizes.H,
      [&] { return BackwardWorker<T>(sizes, data, grads); },
      [&](BackwardWorker<T>& worker, std::int64_t task) {
        const std::int64_t n = task / sizes.H;
        worker.run(documents, n, task % sizes.H,
                   offsets[static_cast<std::size_t>(n)]);
      });
}

template void delta_rule_backward_cpu<float>(const DeltaRuleSizes&,
                                             const Documents&,
                                             const DeltaRuleForward<float>&,
                                             const DeltaRuleBackward<float>&);
template void delta_rule_backward_cpu<double>(const DeltaRuleSizes&,
                                              const Documents&,
                                              const DeltaRuleForward<double>&,
                                              const DeltaRuleBackward<double>&);

}  // namespace osdn::ops
