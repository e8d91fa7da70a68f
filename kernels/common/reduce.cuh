#pragma once
// Sums in a fixed order: the same input gives the same bits in every lane and
// in every run.

#include <cuda_runtime.h>

namespace osdn::kernels {

inline constexpr unsigned kFullWarp = 0xffffffffu;

/// Sum over aligned groups of Lanes lanes (a power of two); every lane of a
/// group gets it.
template <int Lanes = 32>
__device__ __forceinline__ float lane_sum(float x) {
#pragma unroll
  for (int offset = Lanes / 2; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(kFullWarp, x, offset);
  }
  return x;
}

template <int Lanes = 32>
__device__ __forceinline__ double lane_sum(double x) {
#pragma unroll
  for (int offset = Lanes / 2; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(kFullWarp, x, offset);
  }
  return x;
}

/// Sum over a block of Warps warps, in every thread. `scratch` holds Warps
/// values and must not be touched by others between two barriers.
template <int Warps, typename T>
__device__ __forceinline__ T block_sum(T x, T* scratch) {
  x = lane_sum(x);
  if constexpr (Warps == 1) {
    return x;
  } else {
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = x;
    __syncthreads();
    T sum = scratch[0];
#pragma unroll
    for (int w = 1; w < Warps; ++w) sum += scratch[w];
    __syncthreads();
    return sum;
  }
}

}  // namespace osdn::kernels
