#pragma once
// What the kernels of the chunk version share: tile loads and addresses.

#include "kernels/common/device.cuh"
#include "kernels/common/launch.cuh"
#include "kernels/common/mma.cuh"
#include "kernels/delta_rule/chunk_instances.h"
#include "kernels/delta_rule/layout.h"

namespace osdn::kernels::delta_rule::chunk {

/// Registers and shared memory hold at most 128 key channels of what a kernel
/// works on; wider keys are taken in parts, by two warpgroups or one after the
/// other.
template <int K>
struct KeyParts {
  static constexpr int kCount = K > 128 ? K / 128 : 1;
  static constexpr int kWidth = K / kCount;
};

/// Calls the instance of `launch`, a template lambda, for the operands.
template <typename Launch>
void for_operands(Operands operands, const Launch& launch) {
  switch (operands) {
    case Operands::kRaw:
      return launch.template operator()<Operands::kRaw>();
    case Operands::kWriteKey:
      return launch.template operator()<Operands::kWriteKey>();
    case Operands::kDecayed:
      return launch.template operator()<Operands::kDecayed>();
  }
}

__device__ __forceinline__ const Bf16* bf16(const void* pointer) {
  return static_cast<const Bf16*>(pointer);
}
__device__ __forceinline__ Bf16* bf16(void* pointer) {
  return static_cast<Bf16*>(pointer);
}

/// Starts the copy of a [kRows, kCols] tile whose rows lie `stride` elements
/// apart; rows from `rows` on become zeros and are not read.
template <int kRows, int kCols, int kThreads>
__device__ __forceinline__ void load_tile(Tile<kCols, kRows> tile,
                                          const Bf16* from, std::int64_t stride,
                                          int rows, int thread) {
  constexpr int kUnits = kCols / 8;
  constexpr int kStep = kThreads / kUnits;  // rows a round
  static_assert(kThreads % kUnits == 0 && kStep % 8 == 0,
                "a thread keeps its column and its place in the swizzle");
  const int row0 = thread / kUnits, col = thread % kUnits * 8;
  Bf16* to = tile.unit(row0, col);
  const Bf16* source = from + row0 * stride + col;
#pragma unroll
  for (int i = 0; i < (kRows + kStep - 1) / kStep; ++i) {
    const int row = row0 + i * kStep;
    if (kRows % kStep == 0 || row < kRows) {
      const bool valid = row < rows;
      copy_async(to + i * kStep * 64, valid ? source : from, valid);
    }
    source += kStep * stride;
  }
}

/// Starts the copy of one operand of a scan over the keys: raw, token by token
/// from `raw + at` on, or with the decay in it, a tile for each chunk and head.
template <int K, int kThreads, Operands kOperands>
__device__ __forceinline__ void load_keys(unsigned char* to, ChunkInfo chunk,
                                          std::int64_t chunk_head,
                                          const void* raw, std::int64_t at,
                                          std::int64_t stride,
                                          const void* decayed, int thread) {
  const Tile<K> tile{reinterpret_cast<Bf16*>(to)};
  if constexpr (kOperands == Operands::kDecayed) {
    load_tile<kChunk, K, kThreads>(
        tile, bf16(decayed) + chunk_head * kChunk * K, K, kChunk, thread);
  } else {
    load_tile<kChunk, K, kThreads>(tile, bf16(raw) + at, stride, chunk.rows,
                                   thread);
  }
}

/// Starts the copy of `kFloats` consecutive floats.
template <int kFloats>
__device__ __forceinline__ void load_floats_async(float* to, const float* from,
                                                  int thread) {
  if (thread < kFloats / 4) copy_async(to + thread * 4, from + thread * 4);
}

/// Sixteen bytes from shared to global memory.
__device__ __forceinline__ void copy_out(Bf16* to, const Bf16* from) {
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
}

/// The pair of a per-token vector that belongs to columns 2t, 2t+1 of
/// accumulator tile `tile`.
__device__ __forceinline__ float2 token_pair(const float* vector, int tile,
                                             int lane) {
  return *reinterpret_cast<const float2*>(vector + 8 * tile + 2 * (lane & 3));
}

/// Two neighbouring accumulator tiles as one A operand.
__device__ __forceinline__ void pack_a(std::uint32_t (&a)[4],
                                       const float (&first)[4],
                                       const float (&second)[4]) {
  a[0] = pack_bf16(first[0], first[1]);
  a[1] = pack_bf16(first[2], first[3]);
  a[2] = pack_bf16(second[0], second[1]);
  a[3] = pack_bf16(second[2], second[3]);
}

/// The same with the columns (tokens) scaled.
__device__ __forceinline__ void pack_a_scaled(std::uint32_t (&a)[4],
                                              const float (&first)[4],
                                              const float (&second)[4],
                                              float2 s1, float2 s2) {
  a[0] = pack_bf16(first[0] * s1.x, first[1] * s1.y);
  a[1] = pack_bf16(first[2] * s1.x, first[3] * s1.y);
  a[2] = pack_bf16(second[0] * s2.x, second[1] * s2.y);
  a[3] = pack_bf16(second[2] * s2.x, second[3] * s2.y);
}

/// Dot products of two packed elements.
__device__ __forceinline__ float dot_pair(std::uint32_t x, float y0, float y1) {
  return low_bf16(x) * y0 + high_bf16(x) * y1;
}
__device__ __forceinline__ float dot_pair(std::uint32_t x, std::uint32_t y) {
  return dot_pair(x, low_bf16(y), high_bf16(y));
}

/// The lane's part of the sum of squares of row row0 + lane % 16; lanes 16
/// apart share a row.
template <int K>
__device__ __forceinline__ float row_squares(Tile<K> tile, int row0, int lane) {
  const int row = row0 + (lane & 15), half = lane >> 4;
  float sum = 0;
#pragma unroll
  for (int c = 0; c < K / 2; c += 8) {
    const uint4 u =
        *reinterpret_cast<const uint4*>(tile.unit(row, half * (K / 2) + c));
    const std::uint32_t words[4] = {u.x, u.y, u.z, u.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sum += low_bf16(words[i]) * low_bf16(words[i]) +
             high_bf16(words[i]) * high_bf16(words[i]);
    }
  }
  return sum;
}

/// 1 / sqrt(sum of squares + epsilon) of the warp's 16 rows, from the lanes'
/// parts.
__device__ __forceinline__ void write_norms(float* norms, float sum, bool used,
                                            int row0, int lane) {
  sum += __shfl_xor_sync(0xffffffffu, sum, 16);
  if (lane < 16) {
    norms[row0 + lane] = used ? rsqrtf(sum + kNormEpsilon) : 1.f;
  }
}

/// Elements (row, col), (row, col + 1) of a tile, col = col8 + 2t.
template <int kCols>
__device__ __forceinline__ std::uint32_t tile_pair(Tile<kCols> tile, int row,
                                                   int col8, int t) {
  return *reinterpret_cast<const std::uint32_t*>(tile.unit(row, col8) + 2 * t);
}

/// Where a scan's two warpgroups hold a part of the keys each, products over
/// the keys are sums of two parts, which go through shared memory: a warp's
/// place for accumulator tile `tile` of kTiles, one float4 a lane. Its partner
/// is the warp 4 away. Both add the same two numbers, so their sums agree to
/// the bit.
template <int kTiles>
__device__ __forceinline__ float4* partial_sum(float4* sums, int warp, int tile,
                                               int lane) {
  return sums + (warp * kTiles + tile) * 32 + lane;
}
template <int kTiles>
__device__ __forceinline__ void put_partial(float4* sums, const float (&x)[4],
                                            int warp, int tile, int lane) {
  *partial_sum<kTiles>(sums, warp, tile, lane) = float4{x[0], x[1], x[2], x[3]};
}
template <int kTiles>
__device__ __forceinline__ void add_partial(float (&x)[4], float4* sums,
                                            int warp, int tile, int lane) {
  const float4 y = *partial_sum<kTiles>(sums, warp ^ 4, tile, lane);
  x[0] += y.x;
  x[1] += y.y;
  x[2] += y.z;
  x[3] += y.w;
}

/// The second of two operands where `second`, register by register.
__device__ __forceinline__ void select_a(std::uint32_t (&to)[4],
                                         const std::uint32_t (&first)[4],
                                         const std::uint32_t (&other)[4],
                                         bool second) {
#pragma unroll
  for (int i = 0; i < 4; ++i) to[i] = second ? other[i] : first[i];
}
}  // namespace osdn::kernels::delta_rule::chunk
