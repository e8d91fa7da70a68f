#pragma once
// Many tensors into places of one flat tensor, converted: the gradients of a
// bucket in one launch, where one each would leave the GPU idle between them.

#include "kernels/common/launcher.h"

namespace osdn::kernels {

/// What a launch takes; parameters of kernels have 4 KB.
inline constexpr int kMostPacked = 96;

struct PackParams {
  Element from = Element::kBF16;
  Element to = Element::kF32;
  int tensors = 0;                       ///< 0 to kMostPacked
  const void* source[kMostPacked] = {};  ///< [count], from; null: zeros
  std::int64_t count[kMostPacked] = {};  ///< elements
  std::int64_t begin[kMostPacked] = {};  ///< in flat, elements
  void* flat = nullptr;                  ///< to
};

const char* pack_unsupported(const PackParams&);
/// flat[begin[i] + j] = source[i][j], rounded to nearest.
void pack(const PackParams&, Stream stream);

}  // namespace osdn::kernels
