#include "vector_table.h"

#include <type_traits>

namespace osdn::ops {
namespace {

VectorTable choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq")) {
    return avx512::table();
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2")) {
    return avx2::table();
  }
#endif
  return baseline::table();
}

template <typename T>
const VectorFunctions<T>& chosen() {
  static const VectorTable table = choose();
  if constexpr (std::is_same_v<T, float>) {
    return table.f32;
  } else {
    return table.f64;
  }
}

}  // namespace

template <typename T>
void gemm_add(std::int64_t m, std::int64_t n, std::int64_t k, Strided<T> a,
              const T* b, std::int64_t ldb, T* c, std::int64_t ldc) {
  chosen<T>().gemm_add(m, n, k, a, b, ldb, c, ldc);
}

template <typename T>
void gemm_subtract(std::int64_t m, std::int64_t n, std::int64_t k, Strided<T> a,
                   const T* b, std::int64_t ldb, T* c, std::int64_t ldc) {
  chosen<T>().gemm_subtract(m, n, k, a, b, ldb, c, ldc);
}

template <typename T>
void exp_all(std::int64_t n, const T* x, T* out) {
  chosen<T>().exp_all(n, x, out);
}

template <typename T>
void block_pairs(const DecayBlock<T>& block, const T* x1, const T* x2,
                 const T* y, T* y_transposed, T* m1, T* m2) {
  chosen<T>().block_pairs(block, x1, x2, y, y_transposed, m1, m2);
}

template <typename T>
void block_left(const DecayBlock<T>& block, const T* m1, const T* m2,
                const T* y, T* y_at_end, T* out1, T* out2) {
  chosen<T>().block_left(block, m1, m2, y, y_at_end, out1, out2);
}

template <typename T>
void block_right(const DecayBlock<T>& block, const T* m, const T* x,
                 T* x_at_start, T* out) {
  chosen<T>().block_right(block, m, x, x_at_start, out);
}

#define OSDN_INSTANTIATE(T)                                                  \
  template void gemm_add<T>(std::int64_t, std::int64_t, std::int64_t,        \
                            Strided<T>, const T*, std::int64_t, T*,          \
                            std::int64_t);                                   \
  template void gemm_subtract<T>(std::int64_t, std::int64_t, std::int64_t,   \
                                 Strided<T>, const T*, std::int64_t, T*,     \
                                 std::int64_t);                              \
  template void exp_all<T>(std::int64_t, const T*, T*);                      \
  template void block_pairs<T>(const DecayBlock<T>&, const T*, const T*,     \
                               const T*, T*, T*, T*);                        \
  template void block_left<T>(const DecayBlock<T>&, const T*, const T*,      \
                              const T*, T*, T*, T*);                         \
  template void block_right<T>(const DecayBlock<T>&, const T*, const T*, T*, \
                               T*);
OSDN_INSTANTIATE(float)
OSDN_INSTANTIATE(double)
#undef OSDN_INSTANTIATE

}  // namespace osdn::ops
