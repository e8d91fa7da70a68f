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
#pragma unroll 8
  for (int i = 0; i < kChunk; ++i) {
    float* at = G.at(i, thread);
    sum += fmaxf(*at * kLog2E, kLogDecayFloor);
    *at = sum;
  }
}

__device__ __forceinline__ float2 decay_pair(float2 later, float2 earlier) {
  return make_float2(exp2_nonpositive(fminf(later.x - earlier.x, 0.f)),
                     exp2_nonpositive(fminf(later.y - earlier.y, 0.f)));
}
__device__ __forceinline__ std::uint32_t scale_pair(std::uint32_t x, float2 f) {
  return pack_bf16(low_bf16(x) * f.x, high_bf16(x) * f.y);
}

}  // namespace osdn::kernels::delta_rule::chunk
