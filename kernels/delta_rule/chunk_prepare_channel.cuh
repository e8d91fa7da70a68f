#pragma once
// F1 for a per-channel gate: norms, decays, A, P, n, and the operands that
// carry their decay, so that the scans need no per-channel scale:
//   qg = q e^G,  kg = k e^G,  kd = kt e^(G_C - G)
// The norms stay scales of tokens, so that keys of 256 channels can come in two
// parts.
//
// No exponent is positive and no reference comes from a row behind the rows
// that it serves. Off the diagonal a block of 16 rows takes its first row r as
// reference, (k_i e^(G_i - G_r)) (kt_j e^(G_r - G_j)). Inside a block rows 8 to
// 15 meet columns 0 to 7 with row 8 as reference; the two 8x8 triangles are
// summed pair by pair with the exact difference.

#include "kernels/delta_rule/chunk_decays.cuh"
#include "kernels/delta_rule/chunk_inverse.cuh"

namespace osdn::kernels::delta_rule::chunk {

template <int K, bool kSeparateKey>
struct PrepareChannel {
  static constexpr int kThreads = 128;
  static constexpr int kWidth = KeyParts<K>::kWidth;
  static constexpr int kTileBytes = kChunk * kWidth * 2;
  static constexpr int kQ = 0;
  static constexpr int kK = kQ + kTileBytes;
  static constexpr int kKt = kSeparateKey ? kK + kTileBytes : kK;
  static constexpr int kG = kKt + kTileBytes;
  static constexpr int kTilesEnd = kG + Decays<kWidth>::kBytes;
  // After the products the tiles make room for A (then n), T and bf16 P.
  static constexpr int kA = 0;
  static constexpr int kT = kA + kInverseBytes;
  static constexpr int kP = (kT + kProductBytes + 127) / 128 * 128;
  static constexpr int kWorkEnd = kP + kChunk * kChunk * 2;
  static constexpr int kVec =
      ((kTilesEnd > kWorkEnd ? kTilesEnd : kWorkEnd) + 127) / 128 * 128;
  static constexpr int kSharedBytes = kVec + kVectors * kChunk * 4;
};

/// <k_i, kt_j> and <q_i, kt_j> with decay for one pair of rows.
template <int K>
__device__ __forceinline__ float2 exact_pair(Tile<K> q, Tile<K> k, Tile<K> kt,
                                             Decays<K> G, int i, int j) {
  float a = 0, p = 0;
#pragma unroll 4
  for (int c = 0; c < K; c += 4) {
    const float4 gi = *reinterpret_cast<const float4*>(G.at(i, c));
    const float4 gj = *reinterpret_cast<const float4*>(G.at(j, c));
    const auto words = [c](Tile<K> tile, int row) {
      return *reinterpret_cast<const uint2*>(tile.unit(row, c & ~7) + (c & 4));
    };
    const uint2 qw = words(q, i), kw = words(k, i), tw = words(kt, j);
    const float2 f1 = decay_pair({gi.x, gi.y}, {gj.x, gj.y});
    const float2 f2 = decay_pair({gi.z, gi.w}, {gj.z, gj.w});
    const float t0 = low_bf16(tw.x) * f1.x, t1 = high_bf16(tw.x) * f1.y;
    const float t2 = low_bf16(tw.y) * f2.x, t3 = high_bf16(tw.y) * f2.y;
    a += low_bf16(kw.x) * t0 + high_bf16(kw.x) * t1 + low_bf16(kw.y) * t2 +
         high_bf16(kw.y) * t3;
    p += low_bf16(qw.x) * t0 + high_bf16(qw.x) * t1 + low_bf16(qw.y) * t2 +
         high_bf16(qw.y) * t3;
  }
  return make_float2(a, p);
}

/// The operands that carry their decay, 16 bytes a thread at a time, and the
/// decay of the whole chunk, of the part that starts at `channel`.
template <int K, int kWidth>
__device__ __forceinline__ void write_decayed(const Args& args,
                                              std::int64_t chunk_head,
                                              int channel, Tile<kWidth> q,
                                              Tile<kWidth> k, Tile<kWidth> kt,
                                              Decays<kWidth> G, int thread) {
  constexpr int kUnits = kWidth / 8;
  const std::int64_t out_at = chunk_head * kChunk * K + channel;
#pragma unroll
  for (int i = 0; i < kChunk * kUnits / 128; ++i) {
    const int at = i * 128 + thread;
    const int row = at / kUnits, col = at % kUnits * 8;
    const uint4 qw = *reinterpret_cast<const uint4*>(q.unit(row, col));
    const uint4 kw = *reinterpret_cast<const uint4*>(k.unit(row, col));
    const uint4 tw = *reinterpret_cast<const uint4*>(kt.unit(row, col));
    const std::uint32_t in[3][4] = {{qw.x, qw.y, qw.z, qw.w},
                                    {kw.x, kw.y, kw.z, kw.w},
                                    {tw.x, tw.y, tw.z, tw.w}};
    std::uint32_t out[3][4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      const float2 here = G.pair(row, col + 2 * w);
      const float2 to_here = decay_pair(here, make_float2(0.f, 0.f));
      const float2 to_end = decay_pair(G.pair(kChunk - 1, col + 2 * w), here);
      out[0][w] = scale_pair(in[0][w], to_here);
      out[1][w] = scale_pair(in[1][w], to_here);
      out[2][w] = scale_pair(in[2][w], to_end);
    }
    void* const to[3] = {args.qg, args.kg, args.kd};
#pragma unroll
    for (int o = 0; o < 3; ++o) {
      *reinterpret_cast<uint4*>(bf16(to[o]) + out_at + row * K + col) =
          uint4{out[o][0], out[o][1], out[o][2], out[o][3]};
    }
  }
  if (thread < kWidth) {
    args.channel_decay[chunk_head * K + channel + thread] =
        exp2_nonpositive(fminf(*G.at(kChunk - 1, thread), 0.f));
  }
}

/// Adds a part's channels to the warp's scores: of k (a) and q (p), in the
/// column blocks left of the warp's, and of rows 8.. on columns 0..7 inside.
template <int K>
__device__ __forceinline__ void add_scores(float (&a_acc)[6][4],
                                           float (&p_acc)[6][4],
                                           float (&a_mid)[4], float (&p_mid)[4],
                                           Tile<K> q, Tile<K> k, Tile<K> kt,
                                           Decays<K> G, int warp, int lane) {
  const int g = lane >> 2, t = lane & 3;
  const int row0 = 16 * warp;
#pragma unroll
  for (int s = 0; s < K / 16; ++s) {
    std::uint32_t k_raw[4], q_raw[4];
    load_a(k_raw, k, row0, 16 * s, lane);
    load_a(q_raw, q, row0, 16 * s, lane);
    const int c[2] = {16 * s + 2 * t, 16 * s + 2 * t + 8};
    {
      std::uint32_t k_a[4], q_a[4];
      k_a[0] = k_a[2] = q_a[0] = q_a[2] = 0;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float2 f =
            decay_pair(G.pair(row0 + 8 + g, c[e]), G.pair(row0 + 8, c[e]));
        k_a[2 * e + 1] = scale_pair(k_raw[2 * e + 1], f);
        q_a[2 * e + 1] = scale_pair(q_raw[2 * e + 1], f);
      }
      std::uint32_t b[4], b_f[2];
      load_b(b, kt, row0, 16 * s, lane);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        b_f[e] = scale_pair(
            b[e], decay_pair(G.pair(row0 + 8, c[e]), G.pair(row0 + g, c[e])));
      }
      mma_bf16(a_mid, k_a, b_f[0], b_f[1]);
      mma_bf16(p_mid, q_a, b_f[0], b_f[1]);
    }
    if (warp > 0) {
      std::uint32_t k_a[4], q_a[4];
      const float2 ref[2] = {G.pair(row0, c[0]), G.pair(row0, c[1])};
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float2 f =
            decay_pair(G.pair(row0 + g + (e % 2) * 8, c[e / 2]), ref[e / 2]);
        k_a[e] = scale_pair(k_raw[e], f);
        q_a[e] = scale_pair(q_raw[e], f);
      }
#pragma unroll
      for (int p = 0; p < 3; ++p) {
        if (p < warp) {
          std::uint32_t b[4];
          load_b(b, kt, 16 * p, 16 * s, lane);
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            b[e] = scale_pair(
                b[e], decay_pair(ref[e % 2],
                                 G.pair(16 * p + g + (e / 2) * 8, c[e % 2])));
          }
          mma_bf16(a_acc[2 * p], k_a, b[0], b[1]);
          mma_bf16(a_acc[2 * p + 1], k_a, b[2], b[3]);
          mma_bf16(p_acc[2 * p], q_a, b[0], b[1]);
          mma_bf16(p_acc[2 * p + 1], q_a, b[2], b[3]);
        }
      }
    }
  }
}

/// The lane's part of <q_i, kt_i>, row row0 + lane % 16.
template <int K>
__device__ __forceinline__ float diagonal_part(Tile<K> q, Tile<K> kt, int row0,
                                               int lane) {
  const int row = row0 + (lane & 15), first = (lane >> 4) * (K / 2);
  float sum = 0;
#pragma unroll
  for (int c = 0; c < K / 2; c += 8) {
    const uint4 x = *reinterpret_cast<const uint4*>(q.unit(row, first + c));
    const uint4 y = *reinterpret_cast<const uint4*>(kt.unit(row, first + c));
    sum += dot_pair(x.x, y.x) + dot_pair(x.y, y.y) + dot_pair(x.z, y.z) +
           dot_pair(x.w, y.w);
  }
  return sum;
}

template <int K, bool kSeparateKey>
__global__ void __launch_bounds__(128, 4) prepare_channel(const Args args) {
  using L = PrepareChannel<K, kSeparateKey>;
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
  const Decays<L::kWidth> G{reinterpret_cast<float*>(shared + L::kG)};
  float* A = reinterpret_cast<float*>(shared + L::kA);
  float* T = reinterpret_cast<float*>(shared + L::kT);
  float* vec = reinterpret_cast<float*>(shared + L::kVec);
  float* const rq = vec + kVecRq * kChunk;
  float* const rk = vec + kVecRk * kChunk;
  float* const beta = vec + kVecBeta * kChunk;

  const auto load_part = [&](int channel, int thread) {
    const std::int64_t key_at = (chunk.first * args.H + h) * K + channel;
    const std::int64_t key_stride = static_cast<std::int64_t>(args.H) * K;
    const std::int64_t write_at = (chunk.first * args.HV + hv) * K + channel;
    const std::int64_t write_stride = static_cast<std::int64_t>(args.HV) * K;
    load_decays<L::kWidth, L::kThreads>(G, args.g + write_at, write_stride,
                                        chunk.rows, thread);
    load_tile<kChunk, L::kWidth, L::kThreads>(k, bf16(args.k) + key_at,
                                              key_stride, chunk.rows, thread);
    load_tile<kChunk, L::kWidth, L::kThreads>(q, bf16(args.q) + key_at,
                                              key_stride, chunk.rows, thread);
    if (kSeparateKey) {
      load_tile<kChunk, L::kWidth, L::kThreads>(
          kt, bf16(args.kt) + write_at, write_stride, chunk.rows, thread);
    }
    copy_async_commit();
  };
  load_part(0, thread);
  if (thread < kChunk) {
    beta[thread] = thread < chunk.rows
                       ? args.beta[(chunk.first + thread) * args.HV + hv]
                       : 0.f;
    vec[kVecG * kChunk + thread] = 0.f;
    vec[kVecDecay * kChunk + thread] = 1.f;  // the operands carry it
  }

  const int row0 = 16 * warp;
  float a_acc[6][4] = {}, p_acc[6][4] = {};
  float a_mid[4] = {}, p_mid[4] = {};
  float2 exact[2] = {make_float2(0.f, 0.f), make_float2(0.f, 0.f)};
  float diagonal = 0, q_squares = 0, k_squares = 0;
  // Pair `lane` of the strict 8x8 triangles: (1,0), (2,0), (2,1), ...
  int pair_i = 1, pair_j = lane;
  while (pair_j >= pair_i) pair_j -= pair_i++;
  const bool has_pair = lane < 28;
#pragma unroll 1
  for (int channel = 0; channel < K; channel += L::kWidth) {
    const int thread = opaque(static_cast<int>(threadIdx.x));
    const int lane = thread % 32, warp = thread / 32, row0 = 16 * warp;
    if (channel > 0) {
      __syncthreads();
      load_part(channel, thread);
    }
    copy_async_wait<0>();
    __syncthreads();
    q_squares += row_squares(q, row0, lane);
    k_squares += row_squares(k, row0, lane);
    accumulate_decays(G, thread);
    __syncthreads();
    write_decayed<K>(args, chunk_head, channel, q, k, kt, G, thread);
    add_scores(a_acc, p_acc, a_mid, p_mid, q, k, kt, G, warp, lane);
    if (has_pair) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int first = row0 + 8 * half;
        const float2 sum =
            exact_pair(q, k, kt, G, first + pair_i, first + pair_j);
        exact[half].x += sum.x;
        exact[half].y += sum.y;
      }
    }
    diagonal += diagonal_part(q, kt, row0, lane);
  }
  diagonal += __shfl_xor_sync(0xffffffffu, diagonal, 16);
  write_norms(rq, q_squares, args.l2_norm, row0, lane);
  write_norms(rk, k_squares, args.l2_norm, row0, lane);
  __syncthreads();  // the tiles are done with: A, T and P take their place
  if (thread < kChunk) {
    vec[kVecRead * kChunk + thread] = vec[kVecWrite * kChunk + thread] =
        rk[thread];
    vec[kVecQuery * kChunk + thread] = rq[thread];
  }
  const Tile<kChunk> p_tile{reinterpret_cast<Bf16*>(shared + L::kP)};
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    std::uint32_t p_packed[4];
#pragma unroll
    for (int quarter = 0; quarter < 4; ++quarter) {
      const int n = 2 * pair + quarter / 2, half = quarter % 2;
      const int i = row0 + g + 8 * half, j = 8 * n + 2 * t;
      float a[2] = {0.f, 0.f}, p[2] = {0.f, 0.f};
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (pair < 3 && pair < warp) {
          a[e] = a_acc[n < 6 ? n : 0][2 * half + e] * rk[i] * rk[j + e];
          p[e] = p_acc[n < 6 ? n : 0][2 * half + e] * rq[i] * rk[j + e];
        } else if (pair == warp && half == 1 && quarter / 2 == 0) {
          a[e] = a_mid[2 + e] * rk[i] * rk[j + e];
          p[e] = p_mid[2 + e] * rq[i] * rk[j + e];
        }
      }
      *reinterpret_cast<float2*>(A + i * kInversePitch + j) =
          make_float2(a[0], a[1]);
      p_packed[quarter] = pack_bf16(p[0], p[1]);
    }
    store_matrix(p_tile.unit(row0 + (lane & 15), 16 * pair + (lane >> 4) * 8),
                 p_packed);
  }
  __syncwarp();
  const auto set_p = [&](int i, int j, float p) {
    *(p_tile.unit(i, j & ~7) + (j & 7)) = narrow_to<Bf16>(p);
  };
  if (has_pair) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = row0 + 8 * half + pair_i, j = row0 + 8 * half + pair_j;
      A[i * kInversePitch + j] = exact[half].x * rk[i] * rk[j];
      set_p(i, j, exact[half].y * rq[i] * rk[j]);
    }
  }
  if (lane < 16) {
    const int i = row0 + lane;
    set_p(i, i, diagonal * rq[i] * rk[i]);
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
void launch_prepare_channel(const Args& args, Stream stream) {
  using L = PrepareChannel<K, kSeparateKey>;
  launch("delta_rule prepare_channel", prepare_channel<K, kSeparateKey>,
         args.max_chunks * args.HV, L::kThreads, L::kSharedBytes, stream, args);
}

}  // namespace osdn::kernels::delta_rule::chunk
