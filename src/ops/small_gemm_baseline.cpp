#include "small_gemm_table.h"

#define OSDN_GEMM_TARGET baseline
#define OSDN_GEMM_ROWS 2
#include "small_gemm_body.h"
