#pragma once
// Bytes of the delta rule's chunks of 64 tokens, all value heads together
// (kernels/delta_rule/layout.h; on a CPU src/ops/delta_rule.cpp).

#include "osdn/arch/kept_tensors.h"
#include "widths.h"

namespace osdn::arch {

inline constexpr double kChunkTokens = 64;

class DeltaRuleChunks {
 public:
  DeltaRuleChunks(const config::ModelConfig& model, Machine machine,
                  Compute compute)
      : w_(model),
        gpu_(machine == Machine::kGpu),
        per_channel_(model.layer == config::LayerKind::kKda) {
    const auto k = static_cast<int>(w_.k), v = static_cast<int>(w_.v);
    on_matrix_units_ = compute == Compute::kBF16 &&
                       (k == 64 || k == 128 || k == 256) && v % 64 == 0;
    operand_ = on_matrix_units_ ? 2 : 4;
  }

  /// Chunks that a document has beside its tokens / 64. The GPU's buffers have
  /// room for the most; a CPU fills half of a last one on average.
  double of_a_document_end() const { return gpu_ ? 1 : 0.5; }

  /// A GPU's vectors, n and P, and what carries a decay per channel.
  double prepared_bytes() const {
    double bytes =
        8 * kChunkTokens * 4 + 2 * kChunkTokens * kChunkTokens * operand_;
    if (per_channel_) {
      bytes += on_matrix_units_ ? kChunkTokens * w_.k * 3 * 2 + w_.k * 4
                                : kChunkTokens * w_.k * 4;
    }
    return w_.hv * bytes;
  }

  /// S, dS, Z, X of a GPU's backward.
  double backward_bytes() const {
    return w_.hv * operand_ * (2 * w_.k * w_.v + 2 * kChunkTokens * w_.v);
  }

 private:
  Widths w_;
  bool gpu_;
  bool per_channel_;
  bool on_matrix_units_;
  double operand_;
};

}  // namespace osdn::arch
