#include "small_gemm.h"

#include "small_gemm_table.h"

namespace osdn::ops {
namespace {

GemmTable choose() {
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

const GemmTable& chosen() {
  static const GemmTable table = choose();
  return table;
}

}  // namespace

template <>
void gemm_add<float>(std::int64_t m, std::int64_t n, std::int64_t k,
                     Strided<float> a, const float* b, std::int64_t ldb,
                     float* c, std::int64_t ldc) {
  chosen().add_f32(m, n, k, a, b, ldb, c, ldc);
}
template <>
void gemm_add<double>(std::int64_t m, std::int64_t n, std::int64_t k,
                      Strided<double> a, const double* b, std::int64_t ldb,
                      double* c, std::int64_t ldc) {
  chosen().add_f64(m, n, k, a, b, ldb, c, ldc);
}
template <>
void gemm_subtract<float>(std::int64_t m, std::int64_t n, std::int64_t k,
                          Strided<float> a, const float* b, std::int64_t ldb,
                          float* c, std::int64_t ldc) {
  chosen().subtract_f32(m, n, k, a, b, ldb, c, ldc);
}
template <>
void gemm_subtract<double>(std::int64_t m, std::int64_t n, std::int64_t k,
                           Strided<double> a, const double* b, std::int64_t ldb,
                           double* c, std::int64_t ldc) {
  chosen().subtract_f64(m, n, k, a, b, ldb, c, ldc);
}

}  // namespace osdn::ops
