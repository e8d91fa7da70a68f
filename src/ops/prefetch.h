#pragma once
// The rows of one head lie a page or more apart in [T, H, K], where the
// processor's own prefetching does not follow.

#include <cstdint>

#include "small_gemm.h"

namespace osdn::ops {

/// How many rows ahead of its use a row is asked for.
inline constexpr std::int64_t kRowsAhead = 8;

template <typename T>
void prefetch_row(const T* row, std::int64_t n) {
  for (std::int64_t c = 0; c < n; c += kVectorLength<T>) {
    __builtin_prefetch(row + c);
  }
}

}  // namespace osdn::ops
