#pragma once
// Sums of products in a fixed order that the compiler can vectorise.

#include <cstdint>

#include "small_gemm.h"

namespace osdn::ops {

/// The sum is kept in as many parts as a vector has elements: one running sum
/// would wait for each addition.
template <typename T>
T dot(const T* x, const T* y, std::int64_t n) {
  constexpr std::int64_t kParts = kVectorLength<T>;
  T parts[kParts] = {};
  std::int64_t i = 0;
  for (; i + kParts <= n; i += kParts) {
    for (std::int64_t p = 0; p < kParts; ++p) parts[p] += x[i + p] * y[i + p];
  }
  for (std::int64_t p = 0; i + p < n; ++p) parts[p] += x[i + p] * y[i + p];
  for (std::int64_t half = kParts / 2; half > 0; half /= 2) {
    for (std::int64_t p = 0; p < half; ++p) parts[p] += parts[p + half];
  }
  return parts[0];
}

}  // namespace osdn::ops
