#include <cmath>

#include "vector_table.h"

#define OSDN_VECTOR_TARGET avx2
#if defined(__x86_64__)
// Six rows of two 32-byte registers, one of B's and a broadcast: all sixteen.
#define OSDN_GEMM_ROWS 6
#pragma GCC push_options
#pragma GCC target("arch=haswell")
#include "small_gemm_body.h"
// After it, on purpose.
#include "decay_block_body.h"
#pragma GCC pop_options
#else
namespace osdn::ops::avx2 {
VectorTable table() {
  return baseline::table();
}
}  // namespace osdn::ops::avx2
#endif
