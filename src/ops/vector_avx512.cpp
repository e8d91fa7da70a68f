#include <cmath>

#include "vector_table.h"

#define OSDN_VECTOR_TARGET avx512
#if defined(__x86_64__)
#define OSDN_GEMM_ROWS 8
#pragma GCC push_options
#pragma GCC target("arch=skylake-avx512,prefer-vector-width=512")
#include "small_gemm_body.h"
// After it, on purpose.
#include "decay_block_body.h"
#pragma GCC pop_options
#else
namespace osdn::ops::avx512 {
VectorTable table() {
  return baseline::table();
}
}  // namespace osdn::ops::avx512
#endif
