#pragma once
// Finding one's document in cu_seqlens.

#include <cstdint>

namespace osdn::kernels {

/// The document that holds token t (0 <= t < cu_seqlens[documents]): the last
/// one that begins at or before it, so empty ones are passed over.
__device__ __forceinline__ std::int64_t document_of(
    std::int64_t t, const std::int64_t* cu_seqlens, std::int64_t documents) {
  std::int64_t low = 0, high = documents;  // cu[low] <= t < cu[high]
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    if (cu_seqlens[middle] <= t) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace osdn::kernels
