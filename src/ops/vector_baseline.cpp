#include <cmath>

#include "vector_table.h"

#define OSDN_VECTOR_TARGET baseline
#define OSDN_GEMM_ROWS 2
#include "small_gemm_body.h"
// After it, on purpose.
#include "decay_block_body.h"
