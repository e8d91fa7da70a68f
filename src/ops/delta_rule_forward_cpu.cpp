#include <algorithm>
#include <cstdint>

#include "chunks.h"
#include "delta_rule_chunk.h"
#include "delta_rule_cpu.h"
#include "parallel_tasks.h"
#include "small_gemm.h"

namespace osdn::ops {
namespace {

/// Scratch of one thread; runs whole documents of one value head.
template <typename T>
class ForwardWorker {
 public:
  ForwardWorker(const DeltaRuleSizes& sizes, const DeltaRuleForward<T>& data)
      : data_(data),
        chunk_(sizes, data),
        q_start_(chunk_.key_buffer()),
        k_start_(chunk_.key_buffer()),
        k_end_(chunk_.key_buffer()),
        u_(chunk_.value_buffer()),
        o_(chunk_.value_buffer()) {}

  /// All chunks of document n, value head hv, first to last.
  void run(const Documents& documents, std::int64_t n, std::int64_t hv,
           std::int64_t first_chunk) {
    auto& c = chunk_;
    c.load_state(data_.state0, n, hv, c.state);
    for (std::int64_t t = documents.begin(n); t < documents.end(n);
         t += kChunk, ++first_chunk) {
      const std::int64_t rows = std::min(kChunk, documents.end(n) - t);
      c.load(t, rows, hv);
      if (data_.states) c.store_state(c.state, data_.states, first_chunk, hv);
      solve(rows);
      if (data_.u) c.store_values(u_, data_.u, t, rows, hv);
      // O = K^-1/2 (Q_start S + P U)
      c.gate.from_start(c.q.data(), q_start_.data());
      std::fill(o_.begin(), o_.end(), T(0));
      gemm_add<T>(rows, c.Vp, c.Kp, {q_start_.data(), c.Kp, 1}, c.state.data(),
                  c.Vp, o_.data(), c.Vp);
      gemm_add<T>(rows, c.Vp, rows, {c.P.data(), kChunk, 1}, u_.data(), c.Vp,
                  o_.data(), c.Vp);
      for (std::int64_t i = 0; i < rows * c.Vp; ++i) o_[c.at(i)] *= c.scale;
      c.store_values(o_, data_.o, t, rows, hv);
      // S' = Diag(exp G_C) S + K_write_end^T U
      c.gate.to_end(c.k_write.data(), k_end_.data());
      c.decay(c.state);
      gemm_add<T>(c.Kp, c.Vp, rows, {k_end_.data(), 1, c.Kp}, u_.data(), c.Vp,
                  c.state.data(), c.Vp);
    }
    c.store_state(c.state, data_.state_T, n, hv);
  }

 private:
  /// U = L^-1 diag(beta) (V - K_start S), in blocks of rows: what earlier
  /// blocks contribute is one product, the rest is a short substitution.
  void solve(std::int64_t rows) {
    auto& c = chunk_;
    c.gate.from_start(c.k.data(), k_start_.data());
    std::copy(c.v.begin(), c.v.end(), u_.begin());
    gemm_subtract<T>(rows, c.Vp, c.Kp, {k_start_.data(), c.Kp, 1},
                     c.state.data(), c.Vp, u_.data(), c.Vp);
    for (std::int64_t first = 0; first < rows; first += kSubBlock) {
      const std::int64_t last = std::min(first + kSubBlock, rows);
      T* block = u_.data() + first * c.Vp;
      gemm_subtract<T>(last - first, c.Vp, first,
                       {c.A.data() + first * kChunk, kChunk, 1}, u_.data(),
                       c.Vp, block, c.Vp);
      for (std::int64_t i = first; i < last; ++i) {
        T* u = u_.data() + i * c.Vp;
        gemm_subtract<T>(1, c.Vp, i - first,
                         {c.A.data() + i * kChunk + first, kChunk, 1}, block,
                         c.Vp, u, c.Vp);
        const T beta = c.beta[c.at(i)];
        for (std::int64_t e = 0; e < c.Vp; ++e) u[e] *= beta;
      }
    }
  }

  const DeltaRuleForward<T> data_;
  DeltaRuleChunk<T> chunk_;
  std::vector<T> q_start_, k_start_, k_end_;  // with the decay to an edge
  std::vector<T> u_, o_;
};

}  // namespace

template <typename T>
void delta_rule_forward_cpu(const DeltaRuleSizes& sizes,
                            const Documents& documents,
                            const DeltaRuleForward<T>& data) {
  const auto offsets = chunk_offsets(documents);
  parallel_tasks(
      documents.count() * sizes.HV,
      [&] { return ForwardWorker<T>(sizes, data); },
      [&](ForwardWorker<T>& worker, std::int64_t task) {
        const std::int64_t n = task / sizes.HV;
        worker.run(documents, n, task % sizes.HV,
                   offsets[static_cast<std::size_t>(n)]);
      });
}

template void delta_rule_forward_cpu<float>(const DeltaRuleSizes&,
                                            const Documents&,
                                            const DeltaRuleForward<float>&);
template void delta_rule_forward_cpu<double>(const DeltaRuleSizes&,
                                             const Documents&,
                                             const DeltaRuleForward<double>&);

}  // namespace osdn::ops
