#pragma once
// n = -(I + A diag b)^-1 A of one 64x64 strictly lower A in shared memory, in
// place, by four warps.
//
// Exact fp32 substitution on the 16-row diagonal blocks, then merges to 32 and
// 64 rows with tf32 products; the identity parts stay fp32:
//   n21 = -(T + n22 b2 T),  T = A21 + A21 b1 n11

#include "kernels/delta_rule/chunk_common.cuh"

namespace osdn::kernels::delta_rule::chunk {

inline constexpr int kInversePitch = 68;  ///< of A and n, no bank conflicts
inline constexpr int kProductPitch = 36;  ///< of the 32x32 product T
inline constexpr int kInverseBytes = kChunk * kInversePitch * 4;
inline constexpr int kProductBytes = 32 * kProductPitch * 4;

/// One of the two products of a merge, for blocks of kSize rows that start at
/// `at`; the calling warp computes rows [row, row+16) and kTiles column tiles
/// from `col` of the block. T lies at `t`.
template <int kSize, int kTiles, bool kSecond>
__device__ __forceinline__ void merge(float* A, float* t, const float* beta,
                                      int at, int row, int col, int lane) {
  constexpr int kPitch = kInversePitch, kTPitch = kProductPitch;
  const int g = lane >> 2, q = lane & 3;
  const int low = at + kSize;  // first row of the lower block
  // First product: A21 [low.., at..] times b n11. Second: n22 b times T.
  const float* left = A + low * kPitch + (kSecond ? low : at);
  const float* right = kSecond ? t : A + at * kPitch + at;
  constexpr int kRightPitch = kSecond ? kTPitch : kPitch;
  float acc[kTiles][4];
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const int c = col + 8 * n + 2 * q;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int r = row + g + (e / 2) * 8;
      acc[n][e] = kSecond ? t[r * kTPitch + c + e % 2]
                          : A[(low + r) * kPitch + at + c + e % 2];
    }
  }
#pragma unroll
  for (int k = 0; k < kSize; k += 8) {
    float a[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int r = row + g + (e % 2) * 8, kk = k + q + (e / 2) * 4;
      a[e] = left[r * kPitch + kk] * (kSecond ? beta[low + kk] : 1.f);
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      float b[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int kk = k + q + e * 4;
        b[e] = right[kk * kRightPitch + col + 8 * n + g] *
               (kSecond ? 1.f : beta[at + kk]);
      }
      mma_tf32(acc[n], a, b[0], b[1]);
    }
  }
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    const int c = col + 8 * n + 2 * q;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int r = row + g + (e / 2) * 8;
      if (kSecond) {
        A[(low + r) * kPitch + at + c + e % 2] = -acc[n][e];
      } else {
        t[r * kTPitch + c + e % 2] = acc[n][e];
      }
    }
  }
}

/// Called by 128 threads after a barrier; ends without one.
__device__ __forceinline__ void invert_in_place(float* A, float* T,
                                                const float* beta, int warp,
                                                int lane) {
  {
    // Column c of the diagonal block; both halves of the warp do the same.
    const int c = lane & 15, row0 = 16 * warp;
    float b[16], n[16];
#pragma unroll
    for (int j = 0; j < 16; j += 4) {
      const float4 x = *reinterpret_cast<const float4*>(beta + row0 + j);
      b[j] = x.x, b[j + 1] = x.y, b[j + 2] = x.z, b[j + 3] = x.w;
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float* a = A + (row0 + i) * kInversePitch + row0;
      float sum = a[c];
#pragma unroll
      for (int j = 0; j < i; j += 4) {  // b[j] n[j] is kept in n[j]
        const float4 x = *reinterpret_cast<const float4*>(a + j);
        sum += x.x * n[j];
        if (j + 1 < i) sum += x.y * n[j + 1];
        if (j + 2 < i) sum += x.z * n[j + 2];
        if (j + 3 < i) sum += x.w * n[j + 3];
      }
      n[i] = -sum * b[i];
      b[i] = -sum;
    }
    __syncwarp();
    if (lane < 16) {
#pragma unroll
      for (int i = 0; i < 16; ++i)
        A[(row0 + i) * kInversePitch + row0 + c] = b[i];
    }
  }
  __syncthreads();
  {
    const int pair = warp / 2, col = warp % 2 * 8;
    float* t = T + pair * 16 * kProductPitch;
    merge<16, 1, false>(A, t, beta, 32 * pair, 0, col, lane);
    __syncthreads();
    merge<16, 1, true>(A, t, beta, 32 * pair, 0, col, lane);
  }
  __syncthreads();
  {
    const int row = warp / 2 * 16, col = warp % 2 * 16;
    merge<32, 2, false>(A, T, beta, 0, row, col, lane);
    __syncthreads();
    merge<32, 2, true>(A, T, beta, 0, row, col, lane);
  }
}

/// n from shared memory to bf16 [64][64], the upper part as zeros; 128 threads.
__device__ __forceinline__ void write_n(Bf16* to, const float* A, int thread) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int at = i * 128 + thread, row = at / 8, col = at % 8 * 8;
    const float* from = A + row * kInversePitch + col;
    std::uint32_t words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const int c = col + 2 * w;
      words[w] = pack_bf16(c < row ? from[2 * w] : 0.f,
                           c + 1 < row ? from[2 * w + 1] : 0.f);
    }
    *reinterpret_cast<uint4*>(to + row * kChunk + col) =
        uint4{words[0], words[1], words[2], words[3]};
  }
}

/// The warp's 16 rows of a bf16 [64][64] tile to global memory.
__device__ __forceinline__ void write_rows(Bf16* to, Tile<kChunk> tile,
                                           int warp, int lane) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int row = 16 * warp + 4 * i + lane / 8, col = lane % 8 * 8;
    copy_out(to + row * kChunk + col, tile.unit(row, col));
  }
}

}  // namespace osdn::kernels::delta_rule::chunk
