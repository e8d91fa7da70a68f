#include "delta_rule_cpu.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "chunks.h"
#include "parallel_tasks.h"
#include "small_gemm.h"

namespace osdn::ops {
namespace {

constexpr double kL2Eps = 1e-6;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

template <typename T>
T dot(const T* x, const T* y, std::int64_t n) {
  T sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += x[i] * y[i];
  return sum;
}

template <typename T>
T l2_rstd(const T* x, std::int64_t n) {
  return T(1) / std::sqrt(dot(x, x, n) + static_cast<T>(kL2Eps));
}

/// Scratch of one thread, and the steps of one chunk of one head. Buffers have
/// kChunk rows; pads of K and V are zero.
template <typename T>
class ChunkWorker {
 public:
  ChunkWorker(const DeltaRuleSizes& sizes, const DeltaRuleForward<T>& data)
      : s_(sizes),
        data_(data),
        Kp_(padded<T>(sizes.K)),
        Vp_(padded<T>(sizes.V)),
        scale_(T(1) / std::sqrt(static_cast<T>(sizes.K))),
        gate_(sizes.gate, sizes.K) {
    const auto key_buffers = {
        &q_,      &k_,      &k_write_,      &q_start_, &k_start_, &k_end_,
        &grad_q_, &grad_k_, &grad_k_write_, &sum_q_,   &sum_k_};
    for (auto* buffer : key_buffers) buffer->assign(at(kChunk * Kp_), T(0));
    const auto value_buffers = {&v_, &u_, &o_, &grad_o_, &x_};
    for (auto* buffer : value_buffers) buffer->assign(at(kChunk * Vp_), T(0));
    const auto pair_buffers = {&A_, &P_, &grad_A_, &grad_P_};
    for (auto* buffer : pair_buffers) buffer->assign(at(kChunk * kChunk), T(0));
    const auto state_buffers = {&state_, &grad_state_};
    for (auto* buffer : state_buffers) buffer->assign(at(Kp_ * Vp_), T(0));
    const auto row_buffers = {&q_rstd_, &k_rstd_, &beta_};
    for (auto* buffer : row_buffers) buffer->assign(at(kChunk), T(0));
    transposed_.assign(at(std::max(Kp_, kChunk) * Vp_), T(0));
    grad_sum_.assign(at(s_.gate == GateKind::kChannel ? kChunk * Kp_ : kChunk),
                     T(0));
  }

  /// All chunks of document n, value head hv, first to last.
  void forward(const Documents& documents, std::int64_t n, std::int64_t hv,
               std::int64_t first_chunk) {
    load_state(data_.state0, n, hv, state_);
    for (std::int64_t t = documents.begin(n); t < documents.end(n);
         t += kChunk, ++first_chunk) {
      const std::int64_t rows = std::min(kChunk, documents.end(n) - t);
      load_chunk(t, rows, hv);
      if (data_.states) {
        store_state(state_, data_.states, first_chunk, hv);
      }
      pair_matrices(rows);
      solve(rows);
      if (data_.u) store_values(u_, data_.u, t, rows, hv);
      // O = K^-1/2 (Q_start S + P U)
      gate_.from_start(q_.data(), q_start_.data());
      std::fill(o_.begin(), o_.end(), T(0));
      gemm_add<T>(rows, Vp_, Kp_, {q_start_.data(), Kp_, 1}, state_.data(), Vp_,
                  o_.data(), Vp_);
      gemm_add<T>(rows, Vp_, rows, {P_.data(), kChunk, 1}, u_.data(), Vp_,
                  o_.data(), Vp_);
      for (std::int64_t i = 0; i < rows * Vp_; ++i) o_[at(i)] *= scale_;
      store_values(o_, data_.o, t, rows, hv);
      // S' = Diag(exp G_C) S + K_write_end^T U
      gate_.to_end(k_write_.data(), k_end_.data());
      decay_state(state_);
      gemm_add<T>(Kp_, Vp_, rows, {k_end_.data(), 1, Kp_}, u_.data(), Vp_,
                  state_.data(), Vp_);
    }
    store_state(state_, data_.state_T, n, hv);
  }

  /// All chunks of document n and the value heads of key head h, last to
  /// first. The value heads of a group add to one grad_q and grad_k.
  void backward(const Documents& documents, std::int64_t n, std::int64_t h,
                std::int64_t first_chunk, const DeltaRuleBackward<T>& grads) {
    const std::int64_t group = s_.HV / s_.H;
    const std::int64_t begin = documents.begin(n);
    const std::int64_t end = documents.end(n);
    std::vector<T>& dS = grad_state_;
    for (std::int64_t member = 0; member < group; ++member) {
      const std::int64_t hv = h * group + member;
      load_state(grads.grad_state_T, n, hv, dS);
      const std::int64_t chunks = (end - begin + kChunk - 1) / kChunk;
      for (std::int64_t ic = chunks - 1; ic >= 0; --ic) {
        const std::int64_t t = begin + ic * kChunk;
        const std::int64_t rows = std::min(kChunk, end - t);
        load_chunk(t, rows, hv);
        load_state(data_.states, first_chunk + ic, hv, state_);
        load_values(data_.u, t, rows, hv, u_);
        load_values(grads.grad_o, t, rows, hv, grad_o_);
        backward_chunk(t, rows, hv, member == 0, grads);
      }
      if (grads.grad_state0) store_state(dS, grads.grad_state0, n, hv);
    }
  }

 private:
  // ---- one chunk of the backward ------------------------------------------
  void backward_chunk(std::int64_t t, std::int64_t rows, std::int64_t hv,
                      bool first_of_group, const DeltaRuleBackward<T>& grads) {
    pair_matrices(rows);
    gate_.from_start(q_.data(), q_start_.data());
    gate_.from_start(k_.data(), k_start_.data());
    gate_.to_end(k_write_.data(), k_end_.data());
    // From here on grad_o carries the K^-1/2 of the output.
    for (std::int64_t i = 0; i < rows * Vp_; ++i) grad_o_[at(i)] *= scale_;

    // dU = P^T dO + K_write_end dS', then X = L^-T dU in its place.
    std::fill(x_.begin(), x_.end(), T(0));
    gemm_add<T>(rows, Vp_, rows, {P_.data(), 1, kChunk}, grad_o_.data(), Vp_,
                x_.data(), Vp_);
    gemm_add<T>(rows, Vp_, Kp_, {k_end_.data(), Kp_, 1}, grad_state_.data(),
                Vp_, x_.data(), Vp_);
    solve_transposed(rows);

    // Z = V - K_start S - A U: the error that beta scales. It lands in v_.
    gemm_subtract<T>(rows, Vp_, Kp_, {k_start_.data(), Kp_, 1}, state_.data(),
                     Vp_, v_.data(), Vp_);
    gemm_subtract<T>(rows, Vp_, rows, {A_.data(), kChunk, 1}, u_.data(), Vp_,
                     v_.data(), Vp_);
    for (std::int64_t i = 0; i < rows; ++i) {
      grads.grad_beta[(t + i) * s_.HV + hv] =
          dot(row(x_, i, Vp_), row(v_, i, Vp_), Vp_);
      // x_ becomes bX = diag(beta) X = dV.
      T* x = row(x_, i, Vp_);
      for (std::int64_t c = 0; c < Vp_; ++c) x[c] *= beta_[at(i)];
    }
    store_values(x_, grads.grad_v, t, rows, hv);

    // dA = strict_lower(-bX U^T), dP = lower(dO U^T)
    transpose(u_, rows, Vp_, kChunk);
    std::fill(grad_A_.begin(), grad_A_.end(), T(0));
    std::fill(grad_P_.begin(), grad_P_.end(), T(0));
    gemm_subtract<T>(rows, kChunk, Vp_, {x_.data(), Vp_, 1}, transposed_.data(),
                     kChunk, grad_A_.data(), kChunk);
    gemm_add<T>(rows, kChunk, Vp_, {grad_o_.data(), Vp_, 1}, transposed_.data(),
                kChunk, grad_P_.data(), kChunk);
    keep_lower(grad_A_, rows, false);
    keep_lower(grad_P_, rows, true);

    // dQ = (dO S^T) exp G + dP (.) kt;  dK = (-bX S^T) exp G + dA (.) kt
    transpose(state_, Kp_, Vp_, Kp_);
    std::fill(sum_q_.begin(), sum_q_.end(), T(0));
    std::fill(sum_k_.begin(), sum_k_.end(), T(0));
    gemm_add<T>(rows, Kp_, Vp_, {grad_o_.data(), Vp_, 1}, transposed_.data(),
                Kp_, sum_q_.data(), Kp_);
    gemm_subtract<T>(rows, Kp_, Vp_, {x_.data(), Vp_, 1}, transposed_.data(),
                     Kp_, sum_k_.data(), Kp_);
    gate_.from_start(sum_q_.data(), grad_q_.data());
    gate_.from_start(sum_k_.data(), grad_k_.data());
    gate_.left_apply(grad_P_.data(), grad_A_.data(), k_write_.data(),
                     grad_q_.data(), grad_k_.data());

    // dkt = (U dS'^T) exp(G_C - G) + dA^T (.) K + dP^T (.) Q
    transpose(grad_state_, Kp_, Vp_, Kp_);
    std::fill(sum_q_.begin(), sum_q_.end(), T(0));
    gemm_add<T>(rows, Kp_, Vp_, {u_.data(), Vp_, 1}, transposed_.data(), Kp_,
                sum_q_.data(), Kp_);
    gate_.to_end(sum_q_.data(), grad_k_write_.data());
    if (grads.grad_g) end_gradient(rows);
    gate_.right_apply(grad_A_.data(), k_.data(), grad_k_write_.data());
    gate_.right_apply(grad_P_.data(), q_.data(), grad_k_write_.data());
    if (grads.grad_g) store_gate_gradient(t, rows, hv, grads.grad_g);

    // dS = Diag(exp G_C) dS' + Q_start^T dO - K_start^T bX
    decay_state(grad_state_);
    gemm_add<T>(Kp_, Vp_, rows, {q_start_.data(), 1, Kp_}, grad_o_.data(), Vp_,
                grad_state_.data(), Vp_);
    gemm_subtract<T>(Kp_, Vp_, rows, {k_start_.data(), 1, Kp_}, x_.data(), Vp_,
                     grad_state_.data(), Vp_);
    store_key_gradients(t, rows, hv, first_of_group, grads);
  }

  /// The part of dG that belongs to the chunk's last row: through exp(G_C).
  void end_gradient(std::int64_t rows) {
    std::fill(grad_sum_.begin(), grad_sum_.end(), T(0));
    const bool channel = s_.gate == GateKind::kChannel;
    for (std::int64_t c = 0; c < s_.K; ++c) {
      T sum = gate_.over_chunk(c) *
              dot(row(state_, c, Vp_), row(grad_state_, c, Vp_), Vp_);
      for (std::int64_t i = 0; i < rows; ++i) {
        sum += k_write_[at(i * Kp_ + c)] * grad_k_write_[at(i * Kp_ + c)];
      }
      grad_sum_[at(channel ? (rows - 1) * Kp_ + c : rows - 1)] += sum;
    }
  }

  /// dG = Q dQ + K dK - kt dkt, then its reverse running sum.
  void store_gate_gradient(std::int64_t t, std::int64_t rows, std::int64_t hv,
                           T* grad_g) {
    if (s_.gate == GateKind::kHead) {
      T sum = 0;
      for (std::int64_t i = rows - 1; i >= 0; --i) {
        T own = grad_sum_[at(i)];
        for (std::int64_t c = 0; c < s_.K; ++c) own += gate_term(i, c);
        sum += own;
        grad_g[(t + i) * s_.HV + hv] = sum;
      }
      return;
    }
    for (std::int64_t c = 0; c < s_.K; ++c) {
      T sum = 0;
      for (std::int64_t i = rows - 1; i >= 0; --i) {
        sum += grad_sum_[at(i * Kp_ + c)] + gate_term(i, c);
        grad_g[((t + i) * s_.HV + hv) * s_.K + c] = sum;
      }
    }
  }

  T gate_term(std::int64_t i, std::int64_t c) const {
    const std::size_t e = at(i * Kp_ + c);
    return q_[e] * grad_q_[e] + k_[e] * grad_k_[e] -
           k_write_[e] * grad_k_write_[e];
  }

  /// Through the L2 norm where it is fused, then into the outputs.
  void store_key_gradients(std::int64_t t, std::int64_t rows, std::int64_t hv,
                           bool first_of_group,
                           const DeltaRuleBackward<T>& grads) {
    const std::int64_t h = hv / (s_.HV / s_.H);
    for (std::int64_t i = 0; i < rows; ++i) {
      T* dq = row(grad_q_, i, Kp_);
      T* dk = row(grad_k_, i, Kp_);
      T* dkw = row(grad_k_write_, i, Kp_);
      const T* q = row(q_, i, Kp_);
      const T* k = row(k_, i, Kp_);
      const T* kw = row(k_write_, i, Kp_);
      if (!data_.k_write) {
        for (std::int64_t c = 0; c < s_.K; ++c) dk[c] += dkw[c];
      }
      if (s_.l2_norm) {
        const T q_dot = dot(q, dq, s_.K);
        T k_dot = dot(k, dk, s_.K);
        if (data_.k_write) k_dot += dot(kw, dkw, s_.K);
        for (std::int64_t c = 0; c < s_.K; ++c) {
          dq[c] = q_rstd_[at(i)] * (dq[c] - q[c] * q_dot);
          dk[c] = k_rstd_[at(i)] * (dk[c] - k[c] * k_dot);
          dkw[c] *= k_rstd_[at(i)];
        }
      }
      T* to_q = grads.grad_q + ((t + i) * s_.H + h) * s_.K;
      T* to_k = grads.grad_k + ((t + i) * s_.H + h) * s_.K;
      for (std::int64_t c = 0; c < s_.K; ++c) {
        to_q[c] = first_of_group ? dq[c] : to_q[c] + dq[c];
        to_k[c] = first_of_group ? dk[c] : to_k[c] + dk[c];
      }
      if (data_.k_write) {
        std::copy(dkw, dkw + s_.K,
                  grads.grad_k_write + ((t + i) * s_.HV + hv) * s_.K);
      }
    }
  }

  // ---- shared by both directions ------------------------------------------
  void load_chunk(std::int64_t t, std::int64_t rows, std::int64_t hv) {
    const std::int64_t h = hv / (s_.HV / s_.H);
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* q = data_.q + ((t + i) * s_.H + h) * s_.K;
      const T* k = data_.k + ((t + i) * s_.H + h) * s_.K;
      const T* kw =
          data_.k_write ? data_.k_write + ((t + i) * s_.HV + hv) * s_.K : k;
      q_rstd_[at(i)] = s_.l2_norm ? l2_rstd(q, s_.K) : T(1);
      k_rstd_[at(i)] = s_.l2_norm ? l2_rstd(k, s_.K) : T(1);
      for (std::int64_t c = 0; c < s_.K; ++c) {
        q_[at(i * Kp_ + c)] = q[c] * q_rstd_[at(i)];
        k_[at(i * Kp_ + c)] = k[c] * k_rstd_[at(i)];
        k_write_[at(i * Kp_ + c)] = kw[c] * k_rstd_[at(i)];
      }
      beta_[at(i)] = data_.beta[(t + i) * s_.HV + hv];
    }
    load_values(data_.v, t, rows, hv, v_);
    if (s_.gate == GateKind::kNone) {
      gate_.load(nullptr, 0, rows);
    } else if (s_.gate == GateKind::kHead) {
      gate_.load(data_.g + t * s_.HV + hv, s_.HV, rows);
    } else {
      gate_.load(data_.g + (t * s_.HV + hv) * s_.K, s_.HV * s_.K, rows);
    }
  }

  /// A, strictly lower, and P, lower.
  void pair_matrices(std::int64_t rows) {
    gate_.pair_products(k_.data(), q_.data(), k_write_.data(), A_.data(),
                        P_.data());
    for (std::int64_t i = 0; i < rows; ++i) A_[at(i * kChunk + i)] = T(0);
  }

  /// U = L^-1 diag(beta) (V - K_start S), by rows in blocks: what earlier
  /// blocks contribute is a matrix product, the rest a short substitution.
  void solve(std::int64_t rows) {
    gate_.from_start(k_.data(), k_start_.data());
    std::copy(v_.begin(), v_.end(), u_.begin());
    gemm_subtract<T>(rows, Vp_, Kp_, {k_start_.data(), Kp_, 1}, state_.data(),
                     Vp_, u_.data(), Vp_);
    for (std::int64_t first = 0; first < rows; first += kSubBlock) {
      const std::int64_t last = std::min(first + kSubBlock, rows);
      gemm_subtract<T>(last - first, Vp_, first,
                       {A_.data() + first * kChunk, kChunk, 1}, u_.data(), Vp_,
                       row(u_, first, Vp_), Vp_);
      for (std::int64_t i = first; i < last; ++i) {
        T* u = row(u_, i, Vp_);
        for (std::int64_t j = first; j < i; ++j) {
          const T weight = A_[at(i * kChunk + j)];
          const T* earlier = row(u_, j, Vp_);
          for (std::int64_t c = 0; c < Vp_; ++c) u[c] -= weight * earlier[c];
        }
        for (std::int64_t c = 0; c < Vp_; ++c) u[c] *= beta_[at(i)];
      }
    }
  }

  /// X_i = dU_i - sum_{j>i} A_ji beta_j X_j, in place, last row first.
  void solve_transposed(std::int64_t rows) {
    const std::int64_t blocks = (rows + kSubBlock - 1) / kSubBlock;
    std::vector<T>& scaled = o_;  // beta_j X_j of the rows already solved
    for (std::int64_t b = blocks - 1; b >= 0; --b) {
      const std::int64_t first = b * kSubBlock;
      const std::int64_t last = std::min(first + kSubBlock, rows);
      gemm_subtract<T>(last - first, Vp_, rows - last,
                       {A_.data() + last * kChunk + first, 1, kChunk},
                       row(scaled, last, Vp_), Vp_, row(x_, first, Vp_), Vp_);
      for (std::int64_t i = last - 1; i >= first; --i) {
        T* x = row(x_, i, Vp_);
        for (std::int64_t j = i + 1; j < last; ++j) {
          const T weight = A_[at(j * kChunk + i)];
          const T* later = row(scaled, j, Vp_);
          for (std::int64_t c = 0; c < Vp_; ++c) x[c] -= weight * later[c];
        }
        T* to = row(scaled, i, Vp_);
        for (std::int64_t c = 0; c < Vp_; ++c) to[c] = beta_[at(i)] * x[c];
      }
    }
  }

  void decay_state(std::vector<T>& state) const {
    if (s_.gate == GateKind::kNone) return;
    for (std::int64_t c = 0; c < s_.K; ++c) {
      const T factor = gate_.over_chunk(c);
      T* s = state.data() + c * Vp_;
      for (std::int64_t e = 0; e < Vp_; ++e) s[e] *= factor;
    }
  }

  static void keep_lower(std::vector<T>& m, std::int64_t rows, bool diagonal) {
    for (std::int64_t i = 0; i < rows; ++i) {
      T* first = m.data() + i * kChunk;
      std::fill(first + i + (diagonal ? 1 : 0), first + kChunk, T(0));
    }
  }

  /// transposed_[c][i] = x[i][c] for x of `rows` x `columns`, leading
  /// dimension `ld` >= rows, the rest zero.
  void transpose(const std::vector<T>& x, std::int64_t rows,
                 std::int64_t columns, std::int64_t ld) {
    for (std::int64_t c = 0; c < columns; ++c) {
      T* to = transposed_.data() + c * ld;
      for (std::int64_t i = 0; i < rows; ++i) to[i] = x[at(i * columns + c)];
      std::fill(to + rows, to + ld, T(0));
    }
  }

  void load_state(const T* from, std::int64_t outer, std::int64_t hv,
                  std::vector<T>& to) const {
    std::fill(to.begin(), to.end(), T(0));
    if (!from) return;
    const T* s = from + (outer * s_.HV + hv) * s_.K * s_.V;
    for (std::int64_t c = 0; c < s_.K; ++c) {
      std::copy(s + c * s_.V, s + (c + 1) * s_.V, to.data() + c * Vp_);
    }
  }

  void store_state(const std::vector<T>& from, T* to, std::int64_t outer,
                   std::int64_t hv) const {
    T* s = to + (outer * s_.HV + hv) * s_.K * s_.V;
    for (std::int64_t c = 0; c < s_.K; ++c) {
      const T* r = from.data() + c * Vp_;
      std::copy(r, r + s_.V, s + c * s_.V);
    }
  }

  void load_values(const T* from, std::int64_t t, std::int64_t rows,
                   std::int64_t hv, std::vector<T>& to) const {
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* x = from + ((t + i) * s_.HV + hv) * s_.V;
      std::copy(x, x + s_.V, to.data() + i * Vp_);
    }
  }

  void store_values(const std::vector<T>& from, T* to, std::int64_t t,
                    std::int64_t rows, std::int64_t hv) const {
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* x = from.data() + i * Vp_;
      std::copy(x, x + s_.V, to + ((t + i) * s_.HV + hv) * s_.V);
    }
  }

  static T* row(std::vector<T>& buffer, std::int64_t i, std::int64_t width) {
    return buffer.data() + i * width;
  }

  const DeltaRuleSizes s_;
  const DeltaRuleForward<T> data_;
  const std::int64_t Kp_;
  const std::int64_t Vp_;
  const T scale_;
  ChunkGate<T> gate_;
  std::vector<T> q_, k_, k_write_;            // normalised rows of the chunk
  std::vector<T> q_start_, k_start_, k_end_;  // with the decay to an edge
  std::vector<T> grad_q_, grad_k_, grad_k_write_, sum_q_, sum_k_;
  std::vector<T> v_, u_, o_, grad_o_, x_;
  std::vector<T> A_, P_, grad_A_, grad_P_;
  std::vector<T> state_, grad_state_, transposed_;
  std::vector<T> q_rstd_, k_rstd_, beta_, grad_sum_;
};

}  // namespace

template <typename T>
void delta_rule_forward_cpu(const DeltaRuleSizes& sizes,
                            const Documents& documents,
                            const DeltaRuleForward<T>& data) {
  const auto offsets = chunk_offsets(documents);
  parallel_tasks(
      documents.count() * sizes.HV, [&] { return ChunkWorker<T>(sizes, data); },
      [&](ChunkWorker<T>& worker, std::int64_t task) {
        const std::int64_t n = task / sizes.HV;
        worker.forward(documents, n, task % sizes.HV, offsets[at(n)]);
      });
}

template <typename T>
void delta_rule_backward_cpu(const DeltaRuleSizes& sizes,
                             const Documents& documents,
                             const DeltaRuleForward<T>& data,
                             const DeltaRuleBackward<T>& grads) {
  const auto offsets = chunk_offsets(documents);
  parallel_tasks(
      documents.count() * sizes.H, [&] { return ChunkWorker<T>(sizes, data); },
      [&](ChunkWorker<T>& worker, std::int64_t task) {
        const std::int64_t n = task / sizes.H;
        worker.backward(documents, n, task % sizes.H, offsets[at(n)], grads);
      });
}

template void delta_rule_forward_cpu<float>(const DeltaRuleSizes&,
                                            const Documents&,
                                            const DeltaRuleForward<float>&);
template void delta_rule_forward_cpu<double>(const DeltaRuleSizes&,
                                             const Documents&,
                                             const DeltaRuleForward<double>&);
template void delta_rule_backward_cpu<float>(const DeltaRuleSizes&,
                                             const Documents&,
                                             const DeltaRuleForward<float>&,
                                             const DeltaRuleBackward<float>&);
template void delta_rule_backward_cpu<double>(const DeltaRuleSizes&,
                                              const Documents&,
                                              const DeltaRuleForward<double>&,
                                              const DeltaRuleBackward<double>&);

}  // namespace osdn::ops
