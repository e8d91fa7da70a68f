#pragma once
// Small matrix products on chunk-local buffers, where a library call would
// cost more than the product: C (+/-)= A B, A addressed with two strides (so
// A^T needs no copy), B and C row-major.

#include <cstdint>

namespace osdn::ops {

/// Columns are padded to this many elements, so that rows are whole vectors.
template <typename T>
constexpr std::int64_t kVectorLength = 64 /
                                       static_cast<std::int64_t>(sizeof(T));

template <typename T>
constexpr std::int64_t padded(std::int64_t n) {
  return (n + kVectorLength<T> - 1) / kVectorLength<T> * kVectorLength<T>;
}

/// One operand that is read element-wise: a(i, k) = data[i*row + k*column].
template <typename T>
struct Strided {
  const T* data;
  std::int64_t row;
  std::int64_t column;
};

/// C[m, n] += A[m, k] B[k, n]; n a multiple of kVectorLength<T>.
template <typename T>
void gemm_add(std::int64_t m, std::int64_t n, std::int64_t k, Strided<T> a,
              const T* b, std::int64_t ldb, T* c, std::int64_t ldc);

/// C[m, n] -= A[m, k] B[k, n]; n a multiple of kVectorLength<T>.
template <typename T>
void gemm_subtract(std::int64_t m, std::int64_t n, std::int64_t k, Strided<T> a,
                   const T* b, std::int64_t ldb, T* c, std::int64_t ldc);

}  // namespace osdn::ops
