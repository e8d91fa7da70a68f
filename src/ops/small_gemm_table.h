#pragma once
// The copies of small_gemm's body, one an instruction set.

#include "small_gemm.h"

namespace osdn::ops {

struct GemmTable {
  template <typename T>
  using Function = void (*)(std::int64_t m, std::int64_t n, std::int64_t k,
                            Strided<T> a, const T* b, std::int64_t ldb, T* c,
                            std::int64_t ldc);
  Function<float> add_f32;
  Function<float> subtract_f32;
  Function<double> add_f64;
  Function<double> subtract_f64;
};

namespace baseline {
GemmTable table();
}
namespace avx2 {
GemmTable table();
}
namespace avx512 {
GemmTable table();
}

}  // namespace osdn::ops
