#pragma once
// AdamW over all tensors in one launch, and the global norm of their gradients
// in two passes (docs/kernels/adamw.md). Per element, with c the clip factor:
//
//   g <- c g;   p <- p (1 - lr wd)
//   m <- b1 m + (1 - b1) g;   v <- b2 v + (1 - b2) g^2
//   p <- p - lr (m / bias1) / (sqrt(v / bias2) + eps);   copy <- bf16(p)
//
// A step whose norm is not finite changes nothing: the device decides, so the
// host need not wait. Everything that changes from step to step is read from
// device memory, so a CUDA graph can hold the launches.

#include <cstddef>
#include <vector>

#include "kernels/common/launcher.h"

namespace osdn::kernels {

/// One parameter tensor. All pointers are device memory, contiguous.
struct AdamWTensor {
  float* master = nullptr;     ///< [n], fp32 parameter
  float* m = nullptr;          ///< [n]
  float* v = nullptr;          ///< [n]
  const void* grad = nullptr;  ///< [n], grad_element; null: zeros
  void* copy = nullptr;        ///< [n] bf16, or null: no copy is kept
  std::int64_t n = 0;
  float weight_decay = 0.0f;
  Element grad_element = Element::kF32;
};

/// The tensors as the kernels read them: pack it on the host, copy the bytes
/// to the device, and give that address. It stays good while the tensors do.
struct AdamWTable {
  const void* device = nullptr;
  std::int64_t tensors = 0;
  std::int64_t chunks = 0;  ///< pieces of work
};

/// The table's bytes, and its counts in `table` (device left as it was).
/// Throws std::invalid_argument naming the index of a tensor with a missing
/// pointer or a negative n.
std::vector<std::byte> adamw_pack_table(const std::vector<AdamWTensor>& tensors,
                                        AdamWTable& table);

struct GlobalNormParams {
  AdamWTable table;
  float max_norm = 0.0f;        ///< 0: no clipping
  double* workspace = nullptr;  ///< global_norm_workspace_bytes
  /// On the device: [0] the norm, [1] the clip factor min(1, max_norm /
  /// (norm + 1e-6)), or NaN where the norm is not finite.
  float* norm_and_clip = nullptr;
};

/// What a step changes.
struct AdamWStep {
  float lr = 0.0f;
  float bias1 = 1.0f;  ///< 1 - beta1^step
  float bias2 = 1.0f;  ///< 1 - beta2^step
};

struct AdamWParams {
  AdamWTable table;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float eps = 1e-15f;
  const AdamWStep* step = nullptr;  ///< on the device
  /// On the device: the clip factor; NaN means that the step is skipped. Null:
  /// no clipping.
  const float* clip = nullptr;
};

std::int64_t global_norm_workspace_bytes(const GlobalNormParams&);
const char* global_norm_unsupported(const GlobalNormParams&);
const char* adamw_unsupported(const AdamWParams&);
void global_norm(const GlobalNormParams&, Stream stream);
void adamw(const AdamWParams&, Stream stream);

}  // namespace osdn::kernels
