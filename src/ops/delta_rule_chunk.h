#pragma once
// One chunk of one value head of the delta rule: its inputs in padded buffers,
// and what the forward and the backward both compute from them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "chunk_gate.h"
#include "chunks.h"
#include "delta_rule_cpu.h"
#include "dot.h"
#include "prefetch.h"
#include "small_gemm.h"

namespace osdn::ops {

/// Buffers have kChunk rows; pads of K and V are zero.
template <typename T>
class DeltaRuleChunk {
 public:
  using Buffer = std::vector<T>;

  DeltaRuleChunk(const DeltaRuleSizes& sizes, const DeltaRuleForward<T>& data)
      : s(sizes),
        Kp(padded<T>(sizes.K)),
        Vp(padded<T>(sizes.V)),
        scale(T(1) / std::sqrt(static_cast<T>(sizes.K))),
        gate(sizes.gate, sizes.K),
        q(key_buffer()),
        k(key_buffer()),
        k_write(key_buffer()),
        v(value_buffer()),
        beta(kChunk),
        q_rstd(kChunk),
        k_rstd(kChunk),
        A(kChunk * kChunk),
        P(kChunk * kChunk),
        state(state_buffer()),
        data_(data) {}

  Buffer key_buffer() const { return Buffer(at(kChunk * Kp)); }
  Buffer value_buffer() const { return Buffer(at(kChunk * Vp)); }
  Buffer state_buffer() const { return Buffer(at(Kp * Vp)); }

  /// `rows` tokens from token t on, value head hv.
  void load(std::int64_t t, std::int64_t rows, std::int64_t hv) {
    const std::int64_t h = hv / (s.HV / s.H);
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* q_in = data_.q + ((t + i) * s.H + h) * s.K;
      const T* k_in = data_.k + ((t + i) * s.H + h) * s.K;
      const T* write_in =
          data_.k_write ? data_.k_write + ((t + i) * s.HV + hv) * s.K : k_in;
      if (i + kRowsAhead < rows) {
        prefetch_row(q_in + kRowsAhead * s.H * s.K, s.K);
        prefetch_row(k_in + kRowsAhead * s.H * s.K, s.K);
        if (data_.k_write) {
          prefetch_row(write_in + kRowsAhead * s.HV * s.K, s.K);
        }
      }
      q_rstd[at(i)] = reciprocal_norm(q_in);
      k_rstd[at(i)] = reciprocal_norm(k_in);
      scale_row(q_in, q_rstd[at(i)], q.data() + i * Kp);
      scale_row(k_in, k_rstd[at(i)], k.data() + i * Kp);
      scale_row(write_in, k_rstd[at(i)], k_write.data() + i * Kp);
      beta[at(i)] = data_.beta[(t + i) * s.HV + hv];
    }
    load_values(data_.v, t, rows, hv, v);
    if (s.gate == GateKind::kNone) {
      gate.load(nullptr, 0, rows);
    } else if (s.gate == GateKind::kHead) {
      gate.load(data_.g + t * s.HV + hv, s.HV, rows);
    } else {
      gate.load(data_.g + (t * s.HV + hv) * s.K, s.HV * s.K, rows);
    }
    // A, strictly lower, and P, lower.
    gate.pair_products(k.data(), q.data(), k_write.data(), A.data(), P.data());
    for (std::int64_t i = 0; i < rows; ++i) A[at(i * kChunk + i)] = T(0);
  }

  /// state <- Diag(exp G_C) state
  void decay(Buffer& x) const {
    if (s.gate == GateKind::kNone) return;
    for (std::int64_t c = 0; c < s.K; ++c) {
      const T factor = gate.over_chunk(c);
      T* row = x.data() + c * Vp;
      for (std::int64_t e = 0; e < Vp; ++e) row[e] *= factor;
    }
  }

  /// Head hv of [outer, HV, K, V]; zeros where `from` is null.
  void load_state(const T* from, std::int64_t outer, std::int64_t hv,
                  Buffer& to) const {
    std::fill(to.begin(), to.end(), T(0));
    if (!from) return;
    const T* x = from + (outer * s.HV + hv) * s.K * s.V;
    for (std::int64_t c = 0; c < s.K; ++c) {
      std::copy(x + c * s.V, x + (c + 1) * s.V, to.data() + c * Vp);
    }
  }
  void store_state(const Buffer& from, T* to, std::int64_t outer,
                   std::int64_t hv) const {
    T* x = to + (outer * s.HV + hv) * s.K * s.V;
    for (std::int64_t c = 0; c < s.K; ++c) {
      const T* row = from.data() + c * Vp;
      std::copy(row, row + s.V, x + c * s.V);
    }
  }

  /// Rows of [T, HV, V].
  void load_values(const T* from, std::int64_t t, std::int64_t rows,
                   std::int64_t hv, Buffer& to) const {
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* x = from + ((t + i) * s.HV + hv) * s.V;
      if (i + kRowsAhead < rows) {
        prefetch_row(x + kRowsAhead * s.HV * s.V, s.V);
      }
      std::copy(x, x + s.V, to.data() + i * Vp);
    }
  }
  void store_values(const Buffer& from, T* to, std::int64_t t,
                    std::int64_t rows, std::int64_t hv) const {
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* x = from.data() + i * Vp;
      std::copy(x, x + s.V, to + ((t + i) * s.HV + hv) * s.V);
    }
  }

  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  const DeltaRuleSizes s;
  const std::int64_t Kp, Vp;
  const T scale;  ///< K^-1/2
  ChunkGate<T> gate;
  Buffer q, k, k_write;  ///< normalised
  Buffer v;
  Buffer beta, q_rstd, k_rstd;
  Buffer A, P;
  Buffer state;  ///< [Kp][Vp]

 private:
  T reciprocal_norm(const T* x) const {
    constexpr double kL2Eps = 1e-6;
    return s.l2_norm ? T(1) / std::sqrt(dot(x, x, s.K) + static_cast<T>(kL2Eps))
                     : T(1);
  }
  void scale_row(const T* x, T factor, T* to) const {
    for (std::int64_t c = 0; c < s.K; ++c) to[c] = x[c] * factor;
  }

  const DeltaRuleForward<T> data_;
};

}  // namespace osdn::ops
