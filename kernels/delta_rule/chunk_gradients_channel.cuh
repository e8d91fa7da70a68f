#pragma once
// The parts of the gradient kernel that a per-channel gate changes.
//
// dq and dk sum over earlier rows with e^(G_i - G_j), dkt over later ones, per
// channel. Each accumulator is carried from one reference row to the next by a
// factor <= 1: dq and dk of a 16-row block from its first row (blocks to the
// left, by matrix products) to its row 8 (rows 8.. on columns 0 to 7) to the
// row itself; dkt from the block's last row over its row 7. What is left, the
// strict 8x8 triangles and the diagonal, is summed exactly on the CUDA cores
// in the accumulators' own layout.

#include "kernels/delta_rule/chunk_decays.cuh"

namespace osdn::kernels::delta_rule::chunk {

__device__ __forceinline__ float2 multiply(float2 a, float2 b) {
  return make_float2(a.x * b.x, a.y * b.y);
}
/// Scales the upper (rows g) or lower (rows g + 8) half of a tile.
__device__ __forceinline__ void scale_half(float (&tile)[4], int half,
                                           float2 f) {
  tile[2 * half] *= f.x;
  tile[2 * half + 1] *= f.y;
}

/// Decays between a reference row and the elements of a pair of B operands
/// [16 tokens, 8 channels].
template <int K>
__device__ __forceinline__ void decay_factors(float (&f)[8], Decays<K> G,
                                              int ref, int token0, int col,
                                              int lane) {
  const int g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // channels col + g, + 8
    const int c = col + 8 * half + g;
    const float at_ref = *G.at(ref, c);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float at = *G.at(token0 + 2 * t + e % 2 + (e / 2) * 8, c);
      f[4 * half + e] = decay_between(at, at_ref);
    }
  }
}
__device__ __forceinline__ void scale_b(std::uint32_t (&b)[4],
                                        const float (&f)[8]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    b[i] = scale_pair(b[i], make_float2(f[2 * i], f[2 * i + 1]));
  }
}

/// On entry dq, dk, dkt hold the products with the states and their row
/// factors, without any decay; on return everything. `to_end` gets, per
/// accumulator column, the sum over the warp's rows of kt times the state's
/// part of dkt.
template <int K, int kPairs>
__device__ __forceinline__ void channel_products(
    float (&dq)[2 * kPairs][4], float (&dk)[2 * kPairs][4],
    float (&dkt)[2 * kPairs][4], float2 (&to_end)[2 * kPairs], Tile<K> q,
    Tile<K> k, Tile<K> kt, Tile<kChunk> dA, Tile<kChunk> dP, Decays<K> G,
    int row_group, int col0, int lane) {
  constexpr int kTiles = 2 * kPairs;
  const int g = lane >> 2, t = lane & 3;
  const int row0 = 16 * row_group;
  const float2 start = make_float2(0.f, 0.f);
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const int col8 = col0 + 8 * n, c = col8 + 2 * t;
    const float2 end = G.pair(kChunk - 1, c);
    to_end[n] = start;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = row0 + g + 8 * half;
      const std::uint32_t key = tile_pair(kt, i, col8, t);
      const float2 f = decay_pair(end, G.pair(i, c));
      to_end[n].x += low_bf16(key) * dkt[n][2 * half] * f.x;
      to_end[n].y += high_bf16(key) * dkt[n][2 * half + 1] * f.y;
    }
    const float2 to_first = decay_pair(G.pair(row0, c), start);
    const float2 from_last = decay_pair(end, G.pair(row0 + 15, c));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      scale_half(dq[n], half, to_first);
      scale_half(dk[n], half, to_first);
      scale_half(dkt[n], half, from_last);
    }
  }
#pragma unroll 1  // registers are short here
  for (int s = 0; s < 4; ++s) {
    if (s < row_group) {  // blocks to the left
      std::uint32_t p_a[4], a_a[4], b[4];
      load_a(p_a, dP, row0, 16 * s, lane);
      load_a(a_a, dA, row0, 16 * s, lane);
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        float f[8];
        decay_factors<K>(f, G, row0, 16 * s, col0 + 16 * p, lane);
        load_b_transposed(b, kt, 16 * s, col0 + 16 * p, lane);
        scale_b(b, f);
        mma_bf16(dq[2 * p], p_a, b[0], b[1]);
        mma_bf16(dq[2 * p + 1], p_a, b[2], b[3]);
        mma_bf16(dk[2 * p], a_a, b[0], b[1]);
        mma_bf16(dk[2 * p + 1], a_a, b[2], b[3]);
      }
    } else if (s > row_group) {  // blocks below
      std::uint32_t p_a[4], a_a[4], b[4];
      load_a_transposed(p_a, dP, 16 * s, row0, lane);
      load_a_transposed(a_a, dA, 16 * s, row0, lane);
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        float f[8];
        decay_factors<K>(f, G, row0 + 15, 16 * s, col0 + 16 * p, lane);
        load_b_transposed(b, k, 16 * s, col0 + 16 * p, lane);
        scale_b(b, f);
        mma_bf16(dkt[2 * p], a_a, b[0], b[1]);
        mma_bf16(dkt[2 * p + 1], a_a, b[2], b[3]);
        load_b_transposed(b, q, 16 * s, col0 + 16 * p, lane);
        scale_b(b, f);
        mma_bf16(dkt[2 * p], p_a, b[0], b[1]);
        mma_bf16(dkt[2 * p + 1], p_a, b[2], b[3]);
      }
    }
  }
  // Rows 8 to 15 against columns 0 to 7 of the diagonal block.
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const int c = col0 + 8 * n + 2 * t;
    const float2 f = decay_pair(G.pair(row0 + 8, c), G.pair(row0, c));
    scale_half(dq[n], 1, f);
    scale_half(dk[n], 1, f);
    scale_half(dkt[n], 0,
               decay_pair(G.pair(row0 + 15, c), G.pair(row0 + 7, c)));
  }
  {
    std::uint32_t p_a[4], a_a[4], p_t[4], a_t[4];
    load_a(p_a, dP, row0, row0, lane);
    load_a(a_a, dA, row0, row0, lane);
    load_a_transposed(p_t, dP, row0, row0, lane);
    load_a_transposed(a_t, dA, row0, row0, lane);
    p_a[0] = p_a[2] = p_a[3] = a_a[0] = a_a[2] = a_a[3] = 0;
    p_t[0] = p_t[1] = p_t[3] = a_t[0] = a_t[1] = a_t[3] = 0;
#pragma unroll
    for (int p = 0; p < kPairs; ++p) {
      std::uint32_t b[4];
      float f[8];
      decay_factors<K>(f, G, row0 + 8, row0, col0 + 16 * p, lane);
      load_b_transposed(b, kt, row0, col0 + 16 * p, lane);
      scale_b(b, f);
      mma_bf16(dq[2 * p], p_a, b[0], 0u);
      mma_bf16(dq[2 * p + 1], p_a, b[2], 0u);
      mma_bf16(dk[2 * p], a_a, b[0], 0u);
      mma_bf16(dk[2 * p + 1], a_a, b[2], 0u);
      decay_factors<K>(f, G, row0 + 7, row0, col0 + 16 * p, lane);
      load_b_transposed(b, k, row0, col0 + 16 * p, lane);
      scale_b(b, f);
      mma_bf16(dkt[2 * p], a_t, 0u, b[1]);
      mma_bf16(dkt[2 * p + 1], a_t, 0u, b[3]);
      load_b_transposed(b, q, row0, col0 + 16 * p, lane);
      scale_b(b, f);
      mma_bf16(dkt[2 * p], p_t, 0u, b[1]);
      mma_bf16(dkt[2 * p + 1], p_t, 0u, b[3]);
    }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = row0 + 8 * half + g;
    float2 here[kTiles];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const int c = col0 + 8 * n + 2 * t;
      here[n] = G.pair(i, c);
      const float2 f = decay_pair(here[n], G.pair(row0 + 8 * half, c));
      scale_half(dq[n], half, f);
      scale_half(dk[n], half, f);
      scale_half(dkt[n], half,
                 decay_pair(G.pair(row0 + 8 * half + 7, c), here[n]));
    }
    // Row i against row m of its triangle; the later one is decayed to the
    // earlier. Coefficients of the absent direction are zero.
#pragma unroll 1
    for (int m = 0; m < 8; ++m) {
      const int other = row0 + 8 * half + m;
      const auto element = [](Tile<kChunk> tile, int row, int col) {
        return widen(*(tile.unit(row, col & ~7) + (col & 7)));
      };
      const bool earlier = m <= g, later = m >= g;
      const float to_q = earlier ? element(dP, i, other) : 0.f;
      const float to_k = earlier ? element(dA, i, other) : 0.f;
      const float from_q = later ? element(dP, other, i) : 0.f;
      const float from_k = later ? element(dA, other, i) : 0.f;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        const int col8 = col0 + 8 * n;
        const float2 there = G.pair(other, col8 + 2 * t);
        const float2 f =
            earlier ? decay_pair(here[n], there) : decay_pair(there, here[n]);
        const std::uint32_t t_pair = tile_pair(kt, other, col8, t);
        const std::uint32_t k_pair = tile_pair(k, other, col8, t);
        const std::uint32_t q_pair = tile_pair(q, other, col8, t);
        const float2 write =
            multiply(f, make_float2(low_bf16(t_pair), high_bf16(t_pair)));
        dq[n][2 * half] += to_q * write.x;
        dq[n][2 * half + 1] += to_q * write.y;
        dk[n][2 * half] += to_k * write.x;
        dk[n][2 * half + 1] += to_k * write.y;
        dkt[n][2 * half] +=
            f.x * (from_k * low_bf16(k_pair) + from_q * low_bf16(q_pair));
        dkt[n][2 * half + 1] +=
            f.y * (from_k * high_bf16(k_pair) + from_q * high_bf16(q_pair));
      }
    }
  }
}

/// <S, dS> of a slot by channel: eight channels a thread, summed over the warp
/// and kept in shared memory [16 warps][K] from slot to slot; 512 threads.
template <int K>
__device__ __forceinline__ void add_channel_state_dots(float* state_dots,
                                                       Tile<K> S, Tile<K> dS,
                                                       bool first, int thread) {
  const int warp = thread / 32, lane = thread % 32;
  float dot[8] = {};
#pragma unroll
  for (int i = 0; i < 64 * K / 8 / 512; ++i) {
    const int at = i * 512 + thread;
    const int row = at / (K / 8), col = at % (K / 8) * 8;
    const uint4 a = *reinterpret_cast<const uint4*>(S.unit(row, col));
    const uint4 b = *reinterpret_cast<const uint4*>(dS.unit(row, col));
    const std::uint32_t x[4] = {a.x, a.y, a.z, a.w};
    const std::uint32_t y[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      dot[2 * w] += low_bf16(x[w]) * low_bf16(y[w]);
      dot[2 * w + 1] += high_bf16(x[w]) * high_bf16(y[w]);
    }
  }
#pragma unroll
  for (int e = 0; e < 8; ++e) {
#pragma unroll
    for (int step = K / 8; step < 32; step *= 2) {
      dot[e] += __shfl_xor_sync(0xffffffffu, dot[e], step);
    }
    float* sum = state_dots + warp * K + 8 * lane + e;
    if (lane < K / 8) *sum = first ? dot[e] : *sum + dot[e];
  }
}

/// dG = q dq + k dk - kt dkt of the warp's block to shared memory [64][K], and
/// `end` of channel_products, summed over the warp's rows, to channel_ends
/// [4 row groups][K].
template <int K, int kPairs>
__device__ __forceinline__ void put_channel_terms(
    float* dG, float* channel_ends, const float (&dq)[2 * kPairs][4],
    const float (&dk)[2 * kPairs][4], const float (&dkt)[2 * kPairs][4],
    float2 (&end)[2 * kPairs], Tile<K> q, Tile<K> k, Tile<K> kt, int row_group,
    int col0, int lane) {
  const int g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int n = 0; n < 2 * kPairs; ++n) {
#pragma unroll
    for (int step = 4; step < 32; step *= 2) {
      end[n].x += __shfl_xor_sync(0xffffffffu, end[n].x, step);
      end[n].y += __shfl_xor_sync(0xffffffffu, end[n].y, step);
    }
    const int c = col0 + 8 * n + 2 * t;
    if (g == 0) {
      *reinterpret_cast<float2*>(channel_ends + row_group * K + c) = end[n];
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = 16 * row_group + 8 * half + g;
      const std::uint32_t q_pair = tile_pair(q, i, col0 + 8 * n, t);
      const std::uint32_t k_pair = tile_pair(k, i, col0 + 8 * n, t);
      const std::uint32_t t_pair = tile_pair(kt, i, col0 + 8 * n, t);
      *reinterpret_cast<float2*>(dG + i * K + c) =
          make_float2(low_bf16(q_pair) * dq[n][2 * half] +
                          low_bf16(k_pair) * dk[n][2 * half] -
                          low_bf16(t_pair) * dkt[n][2 * half],
                      high_bf16(q_pair) * dq[n][2 * half + 1] +
                          high_bf16(k_pair) * dk[n][2 * half + 1] -
                          high_bf16(t_pair) * dkt[n][2 * half + 1]);
    }
  }
}

/// Scratch of the per-channel dg, in a slot buffer that is done with.
template <int K>
struct ChannelScratch {
  static constexpr int kToEnd = 0;                      ///< [4 row groups][K]
  static constexpr int kSegments = kToEnd + 4 * K * 4;  ///< [512 / K][K]
  static constexpr int kEnd = kSegments + 512 * 4;
};

/// dg from dG [64][K] in shared memory: sums from each token to the chunk's
/// end plus `end`, the decay of the state; 512 threads, two barriers.
template <int K>
__device__ __forceinline__ void write_channel_gate(
    float* grad_g, std::int64_t stride, int rows, float scale, const float* dG,
    const float* state_dots, const float* to_end, float* segments,
    float end_decay, int thread) {
  constexpr int kSegments = 512 / K, kRows = kChunk / kSegments;
  const int c = thread % K, segment = thread / K;
  float sums[kRows], sum = 0;
#pragma unroll
  for (int i = kRows - 1; i >= 0; --i) {
    sum += dG[(segment * kRows + i) * K + c];
    sums[i] = sum;
  }
  segments[segment * K + c] = sum;
  float end = 0;
#pragma unroll
  for (int w = 0; w < 16; ++w) end += state_dots[w * K + c];
  end *= end_decay;
#pragma unroll
  for (int r = 0; r < 4; ++r) end += to_end[r * K + c];
  __syncthreads();
  for (int s = segment + 1; s < kSegments; ++s) end += segments[s * K + c];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const int row = segment * kRows + i;
    if (row < rows) grad_g[row * stride + c] = scale * (sums[i] + end);
  }
}

}  // namespace osdn::kernels::delta_rule::chunk
