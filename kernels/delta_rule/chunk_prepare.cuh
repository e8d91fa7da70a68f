#pragma once
// F1: norms, decays, A, P and n of one chunk head; four warps, 16 rows each.
//
// A and P by bf16 matrix instructions on the raw tiles with fp32 scales; n as
// chunk_inverse.cuh says. Keys of 256 channels come in two parts, so that as
// many blocks share a multiprocessor as with 128.

#include "kernels/delta_rule/chunk_inverse.cuh"

namespace osdn::kernels::delta_rule::chunk {

template <int K, bool kSeparateKey>
struct Prepare {
  static constexpr int kThreads = 128;
  static constexpr int kWidth = KeyParts<K>::kWidth;
  static constexpr int kTileBytes = kChunk * kWidth * 2;
  static constexpr int kQ = 0;
  static constexpr int kK = kQ + kTileBytes;
  static constexpr int kKt = kSeparateKey ? kK + kTileBytes : kK;
  static constexpr int kTilesEnd = kKt + kTileBytes;
  // After the products the tiles make room for A (then n), T and bf16 P.
  static constexpr int kA = 0;
  static constexpr int kT = kA + kInverseBytes;
  static constexpr int kP = (kT + kProductBytes + 127) / 128 * 128;
  static constexpr int kWorkEnd = kP + kChunk * kChunk * 2;
  static constexpr int kVec = kTilesEnd > kWorkEnd ? kTilesEnd : kWorkEnd;
  static constexpr int kSharedBytes = kVec + kVectors * kChunk * 4;
};

template <int K, bool kSeparateKey>
__global__ void __launch_bounds__(128, kSeparateKey ? 4 : 5)
    prepare(const Args args) {
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
  const Tile<L::kWidth> q{reinterpret_cast<Bf16*>(shared + L::kQ)};
  const Tile<L::kWidth> k{reinterpret_cast<Bf16*>(shared + L::kK)};
  const Tile<L::kWidth> kt{reinterpret_cast<Bf16*>(shared + L::kKt)};
  float* A = reinterpret_cast<float*>(shared + L::kA);
  float* T = reinterpret_cast<float*>(shared + L::kT);
  float* vec = reinterpret_cast<float*>(shared + L::kVec);
  float* const rq = vec + kVecRq * kChunk;
  float* const rk = vec + kVecRk * kChunk;
  float* const G = vec + kVecG * kChunk;
  float* const beta = vec + kVecBeta * kChunk;

  const auto load_part = [&](int part, int thread) {
    const int channel = part * L::kWidth;
    const std::int64_t key_at = (chunk.first * args.H + h) * K + channel;
    const std::int64_t key_stride = static_cast<std::int64_t>(args.H) * K;
    load_tile<kChunk, L::kWidth, L::kThreads>(k, bf16(args.k) + key_at,
                                              key_stride, chunk.rows, thread);
    load_tile<kChunk, L::kWidth, L::kThreads>(q, bf16(args.q) + key_at,
                                              key_stride, chunk.rows, thread);
    if (kSeparateKey) {
      load_tile<kChunk, L::kWidth, L::kThreads>(
          kt, bf16(args.kt) + (chunk.first * args.HV + hv) * K + channel,
          static_cast<std::int64_t>(args.HV) * K, chunk.rows, thread);
    }
    copy_async_commit();
  };
  load_part(0, thread);

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

  // Rows 16 w.. of A and P, lower block triangle only.
  float a_acc[8][4] = {}, p_acc[8][4] = {};
  float q_squares = 0, k_squares = 0;
#pragma unroll 1
  for (int part = 0; part < KeyParts<K>::kCount; ++part) {
    const int thread = opaque(static_cast<int>(threadIdx.x));
    const int lane = thread % 32, warp = thread / 32;
    if (part > 0) {
      __syncthreads();
      load_part(part, thread);
    }
    copy_async_wait<0>();
    __syncthreads();
    q_squares += row_squares(q, 16 * warp, lane);
    k_squares += row_squares(k, 16 * warp, lane);
#pragma unroll
    for (int s = 0; s < L::kWidth / 16; ++s) {
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
  }
  write_norms(rq, q_squares, args.l2_norm, 16 * warp, lane);
  write_norms(rk, k_squares, args.l2_norm, 16 * warp, lane);
  __syncthreads();  // the tiles are done with: A, T and P take their place
  if (thread < kChunk) {
    const float to_here = exp2_nonpositive(G[thread]);
    const float end = G[kChunk - 1];
    vec[kVecRead * kChunk + thread] = rk[thread] * to_here;
    vec[kVecQuery * kChunk + thread] = rq[thread] * to_here;
    vec[kVecWrite * kChunk + thread] =
        rk[thread] * exp2_nonpositive(fminf(end - G[thread], 0.f));
    vec[kVecDecay * kChunk + thread] = exp2_nonpositive(end);
  }
  const Tile<kChunk> p_tile{reinterpret_cast<Bf16*>(shared + L::kP)};
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    std::uint32_t p_packed[4];
#pragma unroll
    for (int quarter = 0; quarter < 4; ++quarter) {
      const int n = 2 * pair + quarter / 2, half = quarter % 2;
      const int i = 16 * warp + g + 8 * half, j = 8 * n + 2 * t;
      float a[2] = {0.f, 0.f}, p[2] = {0.f, 0.f};
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (j + e <= i) {  // selected, and no exponent is positive
          const float f =
              rk[j + e] * exp2_nonpositive(fminf(G[i] - G[j + e], 0.f));
          if (j + e < i) a[e] = a_acc[n][2 * half + e] * rk[i] * f;
          p[e] = p_acc[n][2 * half + e] * rq[i] * f;
        }
      }
      *reinterpret_cast<float2*>(A + i * kInversePitch + j) =
          make_float2(a[0], a[1]);
      p_packed[quarter] = pack_bf16(p[0], p[1]);
    }
    store_matrix(
        p_tile.unit(16 * warp + (lane & 15), 16 * pair + (lane >> 4) * 8),
        p_packed);
  }
  __syncwarp();
  write_rows(bf16(args.P) + chunk_head * kChunk * kChunk, p_tile, warp, lane);
  __syncthreads();
  invert_in_place(A, T, beta, warp, lane);
  __syncthreads();
  write_n(bf16(args.n) + chunk_head * kChunk * kChunk, A, thread);
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
