#pragma once
// What the gradient kernel does with a tile: its shared memory, the products
// with dA and dP, the way out, and the place for a part of the keys that waits
// for the other.

#include "kernels/delta_rule/chunk_common.cuh"
#include "kernels/delta_rule/chunk_decays.cuh"

namespace osdn::kernels::delta_rule::chunk {

template <int K, bool kSeparateKey, bool kChannel>
struct Gradients {
  static constexpr int kThreads = 512;
  static constexpr int kParts = KeyParts<K>::kCount;  ///< one after the other
  static constexpr int kWidth = KeyParts<K>::kWidth;
  static constexpr int kSlot = 64;  ///< value columns of a slot
  static constexpr int kKeyBytes = kChunk * kWidth * 2;
  static constexpr int kPairBytes = kChunk * kChunk * 2;
  static constexpr int kSlotBytes = kChunk * kSlot * 2;
  static constexpr int kStateBytes = kSlot * kWidth * 2;
  static constexpr int kQ = 0;
  static constexpr int kK = kQ + kKeyBytes;
  static constexpr int kKt = kSeparateKey ? kK + kKeyBytes : kK;
  static constexpr int kG = kKt + kKeyBytes;  ///< per-channel decays
  static constexpr int kDA = kG + (kChannel ? Decays<kWidth>::kBytes : 0);
  static constexpr int kDP = kDA + kPairBytes;
  static constexpr int kBuffers = kDP + kPairBytes;
  // one buffer
  static constexpr int kGradO = 0;
  static constexpr int kX = kGradO + kSlotBytes;
  static constexpr int kZ = kX + kSlotBytes;
  static constexpr int kS = kZ + kSlotBytes;
  static constexpr int kDS = kS + kStateBytes;
  static constexpr int kVec = kDS + kStateBytes;
  static constexpr int kBufferBytes = kVec + kVectors * kChunk * 4;
  static constexpr int kDots = kBuffers + 2 * kBufferBytes;  ///< [4][4][64]
  static constexpr int kEnds = kDots + 16 * kChunk * 4;      ///< [16] warps
  static constexpr int kStateDots = kEnds + 64;  ///< [16 warps][channel]
  static constexpr int kSharedBytes =
      kStateDots + (kChannel ? 16 * kWidth * 4 : 0);
  static_assert(kSharedBytes <= 232448, "one block a multiprocessor");
};

/// Where a lane's rows of the operands of a slot lie, in elements from a tile's
/// start. A step of 16 columns flips bits of the swizzle and a step of 16 rows
/// is a constant, so three numbers are kept and not one for every load.
template <int kWidth>
struct SlotOffsets {
  int a0, b0, state0;
  __device__ __forceinline__ SlotOffsets(int row_group, int column_group,
                                         int lane) {
    a0 = Tile<64>::offset(16 * row_group + (lane & 15), (lane >> 4) * 8);
    b0 = Tile<64>::offset(16 * column_group + (lane & 7) + (lane >> 4) * 8,
                          ((lane >> 3) & 1) * 8);
    state0 = Tile<kWidth>::offset(lane & 15,
                                  kWidth / 4 * column_group + (lane >> 4) * 8);
  }
  /// Not known to be the same in every slot, so that no sums with them fill
  /// registers from slot to slot.
  __device__ __forceinline__ SlotOffsets here() const {
    SlotOffsets same = *this;
    same.a0 = opaque(a0);
    same.b0 = opaque(b0);
    same.state0 = opaque(state0);
    return same;
  }
  /// As load_a: the warp's rows, columns 16 s.. of a [64][64] tile.
  __device__ __forceinline__ int a(int s) const { return a0 ^ 16 * s; }
  /// As load_b: rows 16 column_group.., columns 16 s..
  __device__ __forceinline__ int b(int s) const { return b0 ^ 16 * s; }
  /// As load_b_transposed: rows 16 s.., columns 16 p.. of the warp's, of a
  /// [64][kWidth] tile.
  __device__ __forceinline__ int state(int s, int p) const {
    return (state0 ^ 16 * p) + 16 * 64 * s;
  }
};

/// Dots of a row, by column group: [kDot][4][64] in shared memory.
enum Dot { kDotQ, kDotK, kDotKt, kDotBeta };
__device__ __forceinline__ float row_dot(const float* dots, int dot, int row) {
  const float* at = dots + dot * 4 * kChunk + row;
  return at[0] + at[kChunk] + at[2 * kChunk] + at[3 * kChunk];
}

/// dv = K^-1/2 b X, 64 columns; 512 threads.
__device__ __forceinline__ void write_dv(Bf16* out, std::int64_t stride,
                                         int rows, Tile<64> X,
                                         const float* beta, float scale,
                                         int thread) {
  const int row = thread / 8, col = thread % 8 * 8;
  if (row >= rows) return;
  const uint4 x = *reinterpret_cast<const uint4*>(X.unit(row, col));
  const float f = scale * beta[row];
  const std::uint32_t in[4] = {x.x, x.y, x.z, x.w};
  std::uint32_t y[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    y[w] = pack_bf16(f * low_bf16(in[w]), f * high_bf16(in[w]));
  }
  *reinterpret_cast<uint4*>(out + row * stride + col) =
      uint4{y[0], y[1], y[2], y[3]};
}

/// The thread's part of <S, dS> of a slot; 512 threads.
template <int K>
__device__ __forceinline__ float state_dot_part(Tile<K> S, Tile<K> dS,
                                                int thread) {
  float dot = 0;
#pragma unroll
  for (int i = 0; i < 64 * K / 8 / 512; ++i) {
    const int at = i * 512 + thread;
    const int row = at / (K / 8), col = at % (K / 8) * 8;
    const uint4 a = *reinterpret_cast<const uint4*>(S.unit(row, col));
    const uint4 b = *reinterpret_cast<const uint4*>(dS.unit(row, col));
    dot += dot_pair(a.x, b.x) + dot_pair(a.y, b.y) + dot_pair(a.z, b.z) +
           dot_pair(a.w, b.w);
  }
  return dot;
}

/// dg of a head by one warp: the sum of dG from each token to the chunk's end,
/// two tokens a lane; the last token's dG also holds the decay of the state.
__device__ __forceinline__ void write_head_gate(float* grad_g,
                                                std::int64_t stride, int rows,
                                                float scale, const float* dots,
                                                const float* ends, int lane) {
  float x[2], end = 0;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const int i = 2 * lane + e;
    x[e] = row_dot(dots, kDotQ, i) + row_dot(dots, kDotK, i) -
           row_dot(dots, kDotKt, i);
  }
#pragma unroll
  for (int w = 0; w < 16; ++w) end += ends[w];
  float sum = x[0] + x[1];
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float later = __shfl_down_sync(0xffffffffu, sum, step);
    if (lane + step < 32) sum += later;
  }
  float above = __shfl_down_sync(0xffffffffu, sum, 1);
  if (lane == 31) above = 0.f;
  if (2 * lane < rows) grad_g[2 * lane * stride] = scale * (sum + end);
  if (2 * lane + 1 < rows) {
    grad_g[(2 * lane + 1) * stride] = scale * (above + x[1] + end);
  }
}

/// Writes a warp's [16, 16 kPairs] block over the same block of `tile` and
/// from there to rows of `out`, `stride` elements apart.
template <int K, int kPairs>
__device__ __forceinline__ void write_block(
    Tile<K> tile, const float (&values)[2 * kPairs][4], Bf16* out,
    std::int64_t stride, int row0, int col0, int rows, int lane) {
  __syncwarp();
#pragma unroll
  for (int p = 0; p < kPairs; ++p) {
    std::uint32_t r[4];
    pack_a(r, values[2 * p], values[2 * p + 1]);
    store_matrix(tile.unit(row0 + (lane & 15), col0 + 16 * p + (lane >> 4) * 8),
                 r);
  }
  __syncwarp();
  constexpr int kUnits = 2 * kPairs, kRows = 32 / kUnits;
#pragma unroll
  for (int i = 0; i < 16 / kRows; ++i) {
    const int row = row0 + i * kRows + lane / kUnits;
    const int col = col0 + lane % kUnits * 8;
    if (row < rows) copy_out(out + row * stride + col, tile.unit(row, col));
  }
}

/// dq, dk += dP' kt, dA' kt; dkt += dA'^T k + dP'^T q: the warp's 16 rows, its
/// columns from col0, the lower block triangle only.
template <int K, int kPairs>
__device__ __forceinline__ void pair_products(
    float (&dq)[2 * kPairs][4], float (&dk)[2 * kPairs][4],
    float (&dkt)[2 * kPairs][4], Tile<K> q, Tile<K> k, Tile<K> kt,
    Tile<kChunk> dA, Tile<kChunk> dP, int row_group, int col0, int lane) {
  const int row0 = 16 * row_group;
#pragma unroll
  for (int s = 0; s < 4; ++s) {
    if (s <= row_group) {
      std::uint32_t p_a[4], a_a[4], b[4];
      load_a(p_a, dP, row0, 16 * s, lane);
      load_a(a_a, dA, row0, 16 * s, lane);
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        load_b_transposed(b, kt, 16 * s, col0 + 16 * p, lane);
        mma_bf16(dq[2 * p], p_a, b[0], b[1]);
        mma_bf16(dq[2 * p + 1], p_a, b[2], b[3]);
        mma_bf16(dk[2 * p], a_a, b[0], b[1]);
        mma_bf16(dk[2 * p + 1], a_a, b[2], b[3]);
      }
    }
    if (s >= row_group) {
      std::uint32_t p_a[4], a_a[4], b[4];
      load_a_transposed(p_a, dP, 16 * s, row0, lane);
      load_a_transposed(a_a, dA, 16 * s, row0, lane);
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        load_b_transposed(b, k, 16 * s, col0 + 16 * p, lane);
        mma_bf16(dkt[2 * p], a_a, b[0], b[1]);
        mma_bf16(dkt[2 * p + 1], a_a, b[2], b[3]);
        load_b_transposed(b, q, 16 * s, col0 + 16 * p, lane);
        mma_bf16(dkt[2 * p], p_a, b[0], b[1]);
        mma_bf16(dkt[2 * p + 1], p_a, b[2], b[3]);
      }
    }
  }
}

/// A thread's own place in global memory for accumulators that wait for the row
/// dots over all keys: which = 0 (dq) or 1 (dk) of a part. Only the thread that
/// wrote there reads it, and a block writes over the same bytes again and
/// again, so that they stay in the second-level cache.
template <int K, int kTiles>
struct Parked {
  static constexpr int kTensors = 2;
  float4* mine;
  __device__ __forceinline__ Parked(float* parked, int thread)
      : mine(reinterpret_cast<float4*>(parked) +
             static_cast<std::int64_t>(blockIdx.x) * (kParkedFloats / 4) +
             thread) {
    static_assert(KeyParts<K>::kCount * kTensors * kTiles * 4 * 512 ==
                  kParkedFloats);
  }
  __device__ __forceinline__ float4* at(int part, int which, int tile) const {
    return mine + ((part * kTensors + which) * kTiles + tile) * 512;
  }
  __device__ __forceinline__ void put(int part, int which,
                                      const float (&x)[kTiles][4]) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      *at(part, which, n) = float4{x[n][0], x[n][1], x[n][2], x[n][3]};
    }
  }
  __device__ __forceinline__ void get(int part, int which,
                                      float (&x)[kTiles][4]) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float4 y = *at(part, which, n);
      x[n][0] = y.x, x[n][1] = y.y, x[n][2] = y.z, x[n][3] = y.w;
    }
  }
  __device__ __forceinline__ void add(int part, int which,
                                      float (&x)[kTiles][4]) const {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float4 y = *at(part, which, n);
      x[n][0] += y.x, x[n][1] += y.y, x[n][2] += y.z, x[n][3] += y.w;
    }
  }
};

}  // namespace osdn::kernels::delta_rule::chunk
