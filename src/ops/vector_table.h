#pragma once
// The vector code of small_gemm.h and decay_block.h, compiled once per
// instruction set; the copy that the processor can run is picked at run time.

#include "decay_block.h"
#include "small_gemm.h"

namespace osdn::ops {

template <typename T>
struct VectorFunctions {
  using Gemm = void (*)(std::int64_t m, std::int64_t n, std::int64_t k,
                        Strided<T> a, const T* b, std::int64_t ldb, T* c,
                        std::int64_t ldc);
  Gemm gemm_add;
  Gemm gemm_subtract;
  void (*exp_all)(std::int64_t n, const T* x, T* out);
  void (*block_pairs)(const DecayBlock<T>& block, const T* x1, const T* x2,
                      const T* y, T* y_transposed, T* m1, T* m2);
  void (*block_left)(const DecayBlock<T>& block, const T* m1, const T* m2,
                     const T* y, T* y_at_end, T* out1, T* out2);
  void (*block_right)(const DecayBlock<T>& block, const T* m, const T* x,
                      T* x_at_start, T* out);
};

struct VectorTable {
  VectorFunctions<float> f32;
  VectorFunctions<double> f64;
};

namespace baseline {
VectorTable table();
}
namespace avx2 {
VectorTable table();
}
namespace avx512 {
VectorTable table();
}

}  // namespace osdn::ops
