#pragma once
// The second pass of a two-pass reduction: sums the rows of a matrix of fp32
// partials in an order that depends on the sizes alone.

#include <cstdint>

#include "kernels/common/launch_check.cuh"
#include "kernels/common/launcher.h"

namespace osdn::kernels {

/// Where the sum of a column goes: out[column].
struct SameColumn {
  __device__ std::int64_t operator()(std::int64_t column) const {
    return column;
  }
};

/// Partials of rows [major][minor] whose result is stored [minor][major].
struct TransposedColumn {
  std::int64_t major, minor;
  __device__ std::int64_t operator()(std::int64_t column) const {
    return column % minor * major + column / minor;
  }
};

inline constexpr int kColumnStrands = 8;

/// Eight strands a column, each over every eighth row, joined in order.
template <typename Place>
__global__ void column_sum_kernel(const float* partial, std::int64_t rows,
                                  std::int64_t columns, float* out,
                                  Place place) {
  __shared__ float strands[kColumnStrands][32];
  const std::int64_t column =
      static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x;
  float sum = 0.0f;
  if (column < columns) {
#pragma unroll 8
    for (std::int64_t row = threadIdx.y; row < rows; row += kColumnStrands) {
      sum += partial[row * columns + column];
    }
  }
  strands[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y == 0 && column < columns) {
#pragma unroll
    for (int strand = 1; strand < kColumnStrands; ++strand) {
      sum += strands[strand][threadIdx.x];
    }
    out[place(column)] = sum;
  }
}

/// out[place(c)] = sum over rows of partial[row, c]; no rows give zeros.
template <typename Place = SameColumn>
void column_sum(const char* name, const float* partial, std::int64_t rows,
                std::int64_t columns, float* out, Stream stream,
                Place place = {}) {
  if (columns == 0) return;
  column_sum_kernel<<<grid_size(columns, 32), dim3(32, kColumnStrands), 0,
                      stream>>>(partial, rows, columns, out, place);
  check_launch(name);
}

}  // namespace osdn::kernels
