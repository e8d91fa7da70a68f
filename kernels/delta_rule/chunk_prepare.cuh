#pragma once
// F1: norms, decays, A, P and n of one chunk head; four warps, 16 rows each.
//
// A and P by bf16 matrix instructions on the raw tiles with fp32 scales. n by
// exact fp32 substitution on the 16-row diagonal blocks, merged to 32 and 64
// rows with tf32 products; the identity parts stay fp32:
//   n21 = -(T + n22 b2 T),  T = A21 + A21 b1 n11

#include "kernels/delta_rule/chunk_common.cuh"

namespace osdn::kernels::delta_rule::chunk {

template <int K, bool kSeparateKey>
struct Prepare {
  static constexpr int kThreads = 128;
  static constexpr int kPitch = 68;   ///< of fp32 64x64, no bank conflicts
  static constexpr int kTPitch = 36;  ///< of the 32x32 product T
  static constexpr int kTileBytes = kChunk * K * 2;
  static constexpr int kQ = 0;
  static constexpr int kK = kQ + kTileBytes;
  static constexpr int kKt = kSeparateKey ? kK + kTileBytes : kK;
  static constexpr int kTilesEnd = kKt + kTileBytes;
  // After A and P are done the tiles make room for n, T and the bf16 P.
  static constexpr int kN = 0;
  static constexpr int kT = kN + kChunk * kPitch * 4;
  static constexpr int kP = (kT + 32 * kTPitch * 4 + 127) / 128 * 128;
  static constexpr int kWorkEnd = kP + kChunk * kChunk * 2;
  static constexpr int kA = kTilesEnd > kWorkEnd ? kTilesEnd : kWorkEnd;
  static constexpr int kVec = kA + kChunk * kPitch * 4;
  static constexpr int kSharedBytes = kVec + kVectors * kChunk * 4;
};

/// 1 / sqrt(sum of squares + epsilon) of the warp's 16 rows; two lanes a row.
template <int K>
__device__ __forceinline__ void row_norms(Tile<K> tile, float* norms, bool used,
                                          int row0, int lane) {
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
  sum += __shfl_xor_sync(0xffffffffu, sum, 16);
  if (half == 0) norms[row] = used ? rsqrtf(sum + kNormEpsilon) : 1.f;
}

/// T = A21 + A21 (b1 n11), then n21 = -(T + (n22 b2) T), for blocks of kSize
/// rows that start at `at`; the calling warp computes rows [row, row+16) and
/// kTiles column tiles from `col` of the block. T lies at `t`.
template <int kSize, int kTiles, bool kSecond>
__device__ __forceinline__ void merge(const float* A, float* N, float* t,
                                      const float* beta, int at, int row,
                                      int col, int lane) {
  constexpr int kPitch = 68, kTPitch = 36;
  const int g = lane >> 2, q = lane & 3;
  const int low = at + kSize;  // first row of the lower block
  // First product: A21 [low.., at..] times b n11. Second: n22 b times T.
  const float* left = kSecond ? N + low * kPitch + low : A + low * kPitch + at;
  const float* left_scale = beta + low;
  const float* right = kSecond ? t : N + at * kPitch + at;
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
      a[e] = left[r * kPitch + kk] * (kSecond ? left_scale[kk] : 1.f);
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
        N[(low + r) * kPitch + at + c + e % 2] = -acc[n][e];
      } else {
        t[r * kTPitch + c + e % 2] = acc[n][e];
      }
    }
  }
}

template <int K, bool kSeparateKey>
__global__ void __launch_bounds__(128) prepare(const Args args) {
  using L = Prepare<K, kSeparateKey>;
  const std::int64_t chunk_head = blockIdx.x;
  const std::int64_t chunk_index = chunk_head / args.HV;
  const int hv = static_cast<int>(chunk_head % args.HV);
  const int h = hv / (args.HV / args.H);
  const ChunkInfo chunk = args.chunks[chunk_index];
  if (chunk.rows == 0) return;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32, lane = thread % 32;
  const int g = lane >> 2, t = lane & 3;

  unsigned char* shared = dynamic_shared();
  const Tile<K> q{reinterpret_cast<Bf16*>(shared + L::kQ)};
  const Tile<K> k{reinterpret_cast<Bf16*>(shared + L::kK)};
  const Tile<K> kt{reinterpret_cast<Bf16*>(shared + L::kKt)};
  float* A = reinterpret_cast<float*>(shared + L::kA);
  float* N = reinterpret_cast<float*>(shared + L::kN);
  float* T = reinterpret_cast<float*>(shared + L::kT);
  float* vec = reinterpret_cast<float*>(shared + L::kVec);
  float* const rq = vec + kVecRq * kChunk;
  float* const rk = vec + kVecRk * kChunk;
  float* const G = vec + kVecG * kChunk;
  float* const beta = vec + kVecBeta * kChunk;

  const std::int64_t key_at = (chunk.first * args.H + h) * K;
  const std::int64_t key_stride = static_cast<std::int64_t>(args.H) * K;
  load_tile<kChunk, K, L::kThreads>(k, bf16(args.k) + key_at, key_stride,
                                    chunk.rows, thread);
  load_tile<kChunk, K, L::kThreads>(q, bf16(args.q) + key_at, key_stride,
                                    chunk.rows, thread);
  if (kSeparateKey) {
    load_tile<kChunk, K, L::kThreads>(
        kt, bf16(args.kt) + (chunk.first * args.HV + hv) * K,
        static_cast<std::int64_t>(args.HV) * K, chunk.rows, thread);
  }
  copy_async_commit();

  if (thread < kChunk) {
    beta[thread] = thread < chunk.rows
                       ? args.beta[(chunk.first + thread) * args.HV + hv]
                       : 0.f;
  }
  if (warp == 3) {  // running sum of log decay, tokens 2l and 2l+1 in lane l
    float x[2] = {0.f, 0.f};
    if (args.gate == DeltaRuleGate::kPerHead) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int i = 2 * lane + e;
        if (i < chunk.rows) {
          x[e] = fmaxf(args.g[(chunk.first + i) * args.HV + hv] * kLog2E,
                       kLogDecayFloor);
        }
      }
    }
    float sum = x[0] + x[1];
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const float below = __shfl_up_sync(0xffffffffu, sum, step);
      if (lane >= step) sum += below;
    }
    // The even token's sum is the lane below's sum plus its own part, so
    // equal decays give equal differences whatever follows later.
    const float before = __shfl_up_sync(0xffffffffu, sum, 1);
    G[2 * lane] = (lane > 0 ? before : 0.f) + x[0];
    G[2 * lane + 1] = sum;
  }
  copy_async_wait<0>();
  __syncthreads();
  row_norms<K>(q, rq, args.l2_norm, 16 * warp, lane);
  row_norms<K>(k, rk, args.l2_norm, 16 * warp, lane);
  __syncthreads();
  if (thread < kChunk) {
    const float to_here = exp2_nonpositive(G[thread]);
    const float end = G[kChunk - 1];
    vec[kVecRead * kChunk + thread] = rk[thread] * to_here;
    vec[kVecQuery * kChunk + thread] = rq[thread] * to_here;
    vec[kVecWrite * kChunk + thread] =
        rk[thread] * exp2_nonpositive(fminf(end - G[thread], 0.f));
    vec[kVecDecay * kChunk + thread] = exp2_nonpositive(end);
  }

  // Rows 16 w.. of A and P, lower block triangle only.
  float a_acc[8][4] = {}, p_acc[8][4] = {};
#pragma unroll
  for (int s = 0; s < K / 16; ++s) {
    std::uint32_t ka[4], qa[4];
    load_a(ka, k, 16 * warp, 16 * s, lane);
    load_a(qa, q, 16 * warp, 16 * s, lane);
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      if (p <= warp) {
        std::uint32_t b[4];
        load_b(b, kt, 16 * p, 16 * s, lane);
        mma_bf16(a_acc[2 * p], ka, b[0], b[1]);
        mma_bf16(a_acc[2 * p + 1], ka, b[2], b[3]);
        mma_bf16(p_acc[2 * p], qa, b[0], b[1]);
        mma_bf16(p_acc[2 * p + 1], qa, b[2], b[3]);
      }
    }
  }
  std::uint32_t p_packed[8][2];
#pragma unroll
  for (int n = 0; n < 8; ++n) {
    const int j = 8 * n + 2 * t;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = 16 * warp + g + 8 * half;
      float p[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float a = 0;
        p[e] = 0;
        if (j + e <= i) {  // selected, and no exponent is positive
          const float f =
              rk[j + e] * exp2_nonpositive(fminf(G[i] - G[j + e], 0.f));
          if (j + e < i) a = a_acc[n][2 * half + e] * rk[i] * f;
          p[e] = p_acc[n][2 * half + e] * rq[i] * f;
        }
        A[i * L::kPitch + j + e] = a;
      }
      p_packed[n][half] = pack_bf16(p[0], p[1]);
    }
  }
  __syncthreads();  // the tiles are done with: n, T and P take their place

  {
    const Tile<kChunk> p_tile{reinterpret_cast<Bf16*>(shared + L::kP)};
#pragma unroll
    for (int p = 0; p < 4; ++p) {
      const std::uint32_t r[4] = {p_packed[2 * p][0], p_packed[2 * p][1],
                                  p_packed[2 * p + 1][0],
                                  p_packed[2 * p + 1][1]};
      store_matrix(
          p_tile.unit(16 * warp + (lane & 15), 16 * p + (lane >> 4) * 8), r);
    }
    __syncwarp();
    Bf16* P = bf16(args.P) + chunk_head * kChunk * kChunk;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = 16 * warp + 4 * i + lane / 8, col = lane % 8 * 8;
      copy_out(P + row * kChunk + col, p_tile.unit(row, col));
    }
  }
  {
    // Column c of the diagonal block; both halves of the warp do the same.
    const int c = lane & 15, row0 = 16 * warp;
    float n[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float* a = A + (row0 + i) * L::kPitch + row0;
      float sum = a[c];
#pragma unroll
      for (int j = 0; j < i; ++j) sum += a[j] * beta[row0 + j] * n[j];
      n[i] = -sum;
    }
    if (lane < 16) {
#pragma unroll
      for (int i = 0; i < 16; ++i) N[(row0 + i) * L::kPitch + row0 + c] = n[i];
    } else if (warp % 2 == 0) {  // the block to the right is zero
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        N[(row0 + i) * L::kPitch + row0 + 16 + c] = 0.f;
      }
    }
  }
  __syncthreads();
  {
    const int pair = warp / 2, col = warp % 2 * 8;
    float* t_pair = T + pair * 16 * L::kTPitch;
    merge<16, 1, false>(A, N, t_pair, beta, 32 * pair, 0, col, lane);
    __syncthreads();
    merge<16, 1, true>(A, N, t_pair, beta, 32 * pair, 0, col, lane);
  }
  __syncthreads();
  {
    const int row = warp / 2 * 16, col = warp % 2 * 16;
    merge<32, 2, false>(A, N, T, beta, 0, row, col, lane);
    __syncthreads();
    merge<32, 2, true>(A, N, T, beta, 0, row, col, lane);
  }
  __syncthreads();
  Bf16* n_out = bf16(args.n) + chunk_head * kChunk * kChunk;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int at = i * 128 + thread, row = at / 8, col = at % 8 * 8;
    const float* from = N + row * L::kPitch + col;
    std::uint32_t words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const int c = col + 2 * w;
      words[w] = pack_bf16(c < row ? from[2 * w] : 0.f,
                           c + 1 < row ? from[2 * w + 1] : 0.f);
    }
    *reinterpret_cast<uint4*>(n_out + row * kChunk + col) =
        uint4{words[0], words[1], words[2], words[3]};
  }
  float* vec_out = args.vectors + chunk_head * kVectors * kChunk;
  *reinterpret_cast<float4*>(vec_out + 4 * thread) =
      *reinterpret_cast<const float4*>(vec + 4 * thread);
}

template <int K, bool kSeparateKey>
void launch_prepare(const Args& args, Stream stream) {
  using L = Prepare<K, kSeparateKey>;
  launch("delta_rule prepare", prepare<K, kSeparateKey>,
         args.max_chunks * args.HV, L::kThreads, L::kSharedBytes, stream, args);
}

}  // namespace osdn::kernels::delta_rule::chunk
