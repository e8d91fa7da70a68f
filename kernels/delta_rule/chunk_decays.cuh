#pragma once
// Per-channel decays of a chunk in shared memory.

#include "kernels/delta_rule/chunk_common.cuh"

namespace osdn::kernels::delta_rule::chunk {

/// fp32 [64][K] of cumulated log2 decay; the pitch keeps rows apart in banks.
template <int K>
struct Decays {
  static constexpr int kPitch = K + 4;
  static constexpr int kBytes = kChunk * kPitch * 4;
  float* data;
  __device__ __forceinline__ float* at(int row, int col) const {
    return data + row * kPitch + col;
  }
  __device__ __forceinline__ float2 pair(int row, int col) const {
    return *reinterpret_cast<const float2*>(at(row, col));
  }
};

/// Starts the copy of g [64][K]; rows behind the end become zeros.
template <int K, int kThreads>
__device__ __forceinline__ void load_decays(Decays<K> G, const float* from,
                                            std::int64_t stride, int rows,
                                            int thread) {
  constexpr int kUnits = K / 4, kTotal = kChunk * kUnits;
#pragma unroll
  for (int i = 0; i < kTotal / kThreads; ++i) {
    const int at = i * kThreads + thread;
    const int row = at / kUnits, col = at % kUnits * 4;
    const bool valid = row < rows;
    copy_async(G.at(row, col), from + (valid ? row : 0) * stride + col, valid);
  }
}

/// Running sums down the columns, in base 2; threads below K.
template <int K>
__device__ __forceinline__ void accumulate_decays(Decays<K> G, int thread) {
  if (thread >= K) return;
  float sum = 0;
#pragma unroll 1
  for (int first = 0; first < kChunk; first += 16) {
    float x[16];  // all loads before the first store
#pragma unroll
    for (int i = 0; i < 16; ++i) x[i] = *G.at(first + i, thread);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      sum += fmaxf(x[i] * kLog2E, kLogDecayFloor);
      *G.at(first + i, thread) = sum;
    }
  }
}

/// Decay between two cumulated values. The later one is the smaller; where
/// rounding made them change places, or a caller does not use the result, the
/// exponent is still not positive.
__device__ __forceinline__ float decay_between(float later, float earlier) {
  return exp2_nonpositive(-fabsf(later - earlier));
}
__device__ __forceinline__ float2 decay_pair(float2 later, float2 earlier) {
  return make_float2(decay_between(later.x, earlier.x),
                     decay_between(later.y, earlier.y));
}
__device__ __forceinline__ std::uint32_t scale_pair(std::uint32_t x, float2 f) {
  return pack_bf16(low_bf16(x) * f.x, high_bf16(x) * f.y);
}

}  // namespace osdn::kernels::delta_rule::chunk
