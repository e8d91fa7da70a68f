// The body of small_gemm, compiled once per instruction set: the including
// source sets the target and OSDN_VECTOR_TARGET, the namespace of its copy.
// No include guard and no include lines, on purpose.

namespace osdn::ops::OSDN_VECTOR_TARGET {
namespace {

template <typename T>
struct VectorOf {
  // Element alignment: chunk buffers are padded, not over-aligned.
  typedef T type
      __attribute__((vector_size(64), aligned(alignof(T)), may_alias));
};

template <typename T, int kRows, bool kSubtract>
[[gnu::always_inline]] inline void rows_kernel(std::int64_t n, std::int64_t k,
                                               Strided<T> a, const T* b,
                                               std::int64_t ldb, T* c,
                                               std::int64_t ldc) {
  using Vector = typename VectorOf<T>::type;
  for (std::int64_t j = 0; j < n; j += kVectorLength<T>) {
    Vector acc[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      acc[r] = *reinterpret_cast<const Vector*>(c + r * ldc + j);
    }
    for (std::int64_t p = 0; p < k; ++p) {
      const Vector bv = *reinterpret_cast<const Vector*>(b + p * ldb + j);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const T value = a.data[r * a.row + p * a.column];
        if constexpr (kSubtract) {
          acc[r] -= value * bv;
        } else {
          acc[r] += value * bv;
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      *reinterpret_cast<Vector*>(c + r * ldc + j) = acc[r];
    }
  }
}

template <typename T, bool kSubtract>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, Strided<T> a,
          const T* b, std::int64_t ldb, T* c, std::int64_t ldc) {
  std::int64_t i = 0;
  const auto rows_from = [&a](std::int64_t row) {
    return Strided<T>{a.data + row * a.row, a.row, a.column};
  };
  for (; i + OSDN_GEMM_ROWS <= m; i += OSDN_GEMM_ROWS) {
    rows_kernel<T, OSDN_GEMM_ROWS, kSubtract>(n, k, rows_from(i), b, ldb,
                                              c + i * ldc, ldc);
  }
  for (; i + 2 <= m; i += 2) {
    rows_kernel<T, 2, kSubtract>(n, k, rows_from(i), b, ldb, c + i * ldc, ldc);
  }
  for (; i < m; ++i) {
    rows_kernel<T, 1, kSubtract>(n, k, rows_from(i), b, ldb, c + i * ldc, ldc);
  }
}

}  // namespace

}  // namespace osdn::ops::OSDN_VECTOR_TARGET
