#pragma once
// F2 and B1: the state over a document, S^T [V,K] in fp32 accumulators, one
// warpgroup per 64 value columns, 16 a warp. All left operands come from
// registers and all right operands are tiles in shared memory, so the warps
// of a block meet only where a buffer changes hands: once a chunk.
//
//   E^T = V^T - read (K S)^T;  Z^T = E^T + (b E)^T n^T;  U = b Z
//   O^T = query (Q S)^T + U^T P^T;  S^T = decay S^T + (write U)^T kt
//
// kOutput writes o and state_T (F2); otherwise S at each chunk's start and Z
// (B1, which shares a launch with B2: chunk_backward_scans.cuh).
//
// K = 256: two warpgroups hold the same 64 value columns, half of the keys
// each. They add up their parts of K S once a chunk, compute the same E, Z and
// U, and write half of the tokens each. A separate write key, needed last, has
// one buffer instead of two, and the tile of k, needed first, then takes the
// partial sums.

#include "kernels/common/wgmma.cuh"
#include "kernels/delta_rule/chunk_common.cuh"

namespace osdn::kernels::delta_rule::chunk {

template <int K, int kWarps, Operands kOperands, bool kOutput>
struct Scan {
  static constexpr int kParts = KeyParts<K>::kCount;
  static constexpr int kWidth = KeyParts<K>::kWidth;  ///< keys of a warp
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kCols = 16 * kWarps / kParts;  ///< values of a block
  static constexpr int kKeyBytes = kChunk * K * 2;
  static constexpr int kPairBytes = kChunk * kChunk * 2;
  static constexpr bool kWriteKey = kOperands != Operands::kRaw;
  static constexpr bool kLateWriteKey = kWriteKey && kParts > 1;
  // one stage
  static constexpr int kK = 0;
  static constexpr int kStageKt = kWriteKey ? kK + kKeyBytes : kK;
  static constexpr int kQ = kLateWriteKey ? kStageKt : kStageKt + kKeyBytes;
  static constexpr int kV = kQ + (kOutput ? kKeyBytes : 0);
  static constexpr int kNTile = kV + kChunk * kCols * 2;
  static constexpr int kP = kNTile + kPairBytes;
  static constexpr int kStageBytes = kP + (kOutput ? kPairBytes : 0);
  // once
  static constexpr int kLateKt = 2 * kStageBytes;
  /// S, 16 rows a warp; with parts of the keys, partial sums.
  static constexpr int kStaging = kLateKt + (kLateWriteKey ? kKeyBytes : 0);
  static constexpr bool kSumsInK = kLateWriteKey && kOutput;
  static constexpr int kStagingBytes = !kOutput ? kWarps * 16 * kWidth * 2
                                       : kParts > 1 && !kSumsInK
                                           ? kWarps * (8 + 4) * 32 * 16
                                           : 0;
  // a stage's vectors
  static constexpr int kFirstVec = kVecBeta;  ///< the vectors that are used
  static constexpr int kVecFloats = (kVectors - kFirstVec) * kChunk;
  static constexpr int kVec = kStaging + kStagingBytes;
  static constexpr int kDecay = kVecFloats * 4;  ///< per channel
  static constexpr int kVecBytes =
      kDecay + (kOperands == Operands::kDecayed ? K * 4 : 0);
  static constexpr int kSharedBytes = kVec + 2 * kVecBytes;
  static_assert(kSharedBytes <= 232448, "one block a multiprocessor");
};

template <int K, int kWarps, Operands kOperands, bool kOutput>
__device__ __forceinline__ void run_scan(const Args& args, unsigned block) {
  using L = Scan<K, kWarps, kOperands, kOutput>;
  const int slices = args.V / L::kCols;
  const std::int64_t unit = block / static_cast<unsigned>(slices);
  const int slice = static_cast<int>(block % static_cast<unsigned>(slices));
  const int hv = static_cast<int>(unit % args.HV);
  const std::int64_t document = unit / args.HV;
  const int h = hv / (args.HV / args.H);
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32, lane = thread % 32;
  const int g = lane >> 2, t = lane & 3;
  const int part = L::kParts > 1 ? warp / 4 : 0;  // of the keys
  const int key0 = part * L::kWidth;              // the warp's first
  const int column0 = L::kParts > 1 ? 16 * (warp % 4) : 16 * warp;
  const int column = slice * L::kCols + column0;  // the warp's first
  const int V = args.V;
  unsigned char* shared = dynamic_shared();

  const std::int64_t key_stride = static_cast<std::int64_t>(args.H) * K;
  const std::int64_t write_stride = static_cast<std::int64_t>(args.HV) * K;
  const std::int64_t value_stride = static_cast<std::int64_t>(args.HV) * V;
  const auto load_keys = [&](unsigned char* to, std::int64_t chunk_index,
                             ChunkInfo info, const void* raw, std::int64_t at,
                             std::int64_t stride, const void* decayed) {
    chunk::load_keys<K, L::kThreads, kOperands>(
        to, info, chunk_index * args.HV + hv, raw, at, stride, decayed, thread);
  };
  const auto load_write_key = [&](unsigned char* to, std::int64_t chunk_index,
                                  ChunkInfo chunk) {
    load_keys(to, chunk_index, chunk, args.kt, (chunk.first * args.HV + hv) * K,
              write_stride, args.kd);
  };
  const auto load_stage = [&](std::int64_t chunk_index, int stage) {
    const ChunkInfo chunk = args.chunks[chunk_index];
    const std::int64_t chunk_head = chunk_index * args.HV + hv;
    unsigned char* base = shared + stage * L::kStageBytes;
    float* vec =
        reinterpret_cast<float*>(shared + L::kVec + stage * L::kVecBytes);
    const std::int64_t key_at = (chunk.first * args.H + h) * K;
    load_keys(base + L::kK, chunk_index, chunk, args.k, key_at, key_stride,
              args.kg);
    load_tile<kChunk, L::kCols, L::kThreads>(
        {reinterpret_cast<Bf16*>(base + L::kV)},
        bf16(args.v) + (chunk.first * args.HV + hv) * V + slice * L::kCols,
        value_stride, chunk.rows, thread);
    load_floats_async<L::kVecFloats>(
        vec, args.vectors + (chunk_head * kVectors + L::kFirstVec) * kChunk,
        thread);
    load_tile<kChunk, kChunk, L::kThreads>(
        {reinterpret_cast<Bf16*>(base + L::kNTile)},
        bf16(args.n) + chunk_head * kChunk * kChunk, kChunk, kChunk, thread);
    if (kOutput) {
      load_keys(base + L::kQ, chunk_index, chunk, args.q, key_at, key_stride,
                args.qg);
      load_tile<kChunk, kChunk, L::kThreads>(
          {reinterpret_cast<Bf16*>(base + L::kP)},
          bf16(args.P) + chunk_head * kChunk * kChunk, kChunk, kChunk, thread);
    }
    if (L::kWriteKey && !L::kLateWriteKey) {
      load_write_key(base + L::kStageKt, chunk_index, chunk);
    }
    if (kOperands == Operands::kDecayed) {
      load_floats_async<K>(vec + L::kDecay / 4,
                           args.channel_decay + chunk_head * K, thread);
    }
    copy_async_commit();
  };

  const std::int64_t begin = args.first_chunk[document];
  const std::int64_t end = args.first_chunk[document + 1];
  if (begin < end) load_stage(begin, 0);

  // rows: value columns g, g+8; columns: keys key0 + 8n+2t, +1
  float S[L::kWidth / 8][4];
  const std::int64_t state = (unit * K + key0) * V + column + g;
#pragma unroll
  for (int n = 0; n < L::kWidth / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      S[n][e] =
          args.state0 == nullptr
              ? 0.f
              : args.state0[state + (8 * n + 2 * t + e % 2) * V + (e / 2) * 8];
    }
  }

  for (std::int64_t index = begin; index < end; ++index) {
    const int stage = static_cast<int>((index - begin) & 1);
    unsigned char* base = shared + stage * L::kStageBytes;
    const Tile<K> k{reinterpret_cast<Bf16*>(base + L::kK)};
    const Tile<K> kt{reinterpret_cast<Bf16*>(
        L::kLateWriteKey ? shared + L::kLateKt : base + L::kStageKt)};
    const Tile<K> q{reinterpret_cast<Bf16*>(base + L::kQ)};
    const Tile<L::kCols> v{reinterpret_cast<Bf16*>(base + L::kV)};
    const Tile<kChunk> n_tile{reinterpret_cast<Bf16*>(base + L::kNTile)};
    const Tile<kChunk> p_tile{reinterpret_cast<Bf16*>(base + L::kP)};
    const float* vectors =
        reinterpret_cast<const float*>(shared + L::kVec + stage * L::kVecBytes);
    const float* vec = vectors - L::kFirstVec * kChunk;
    float4* sums = reinterpret_cast<float4*>(
        L::kSumsInK ? base + L::kK : shared + L::kStaging);
    const std::int64_t chunk_head = index * args.HV + hv;

    copy_async_wait<0>();
    fence_shared_for_wgmma();
    __syncthreads();  // this stage has arrived; the other one is free

    if constexpr (L::kLateWriteKey) {
      load_write_key(shared + L::kLateKt, index, args.chunks[index]);
      copy_async_commit();
    }
    // S as left operand: bf16, kept until the products with k and q are done.
    std::uint32_t s_a[L::kWidth / 16][4];
#pragma unroll
    for (int s = 0; s < L::kWidth / 16; ++s)
      pack_a(s_a[s], S[2 * s], S[2 * s + 1]);
    float E[8][4];  // becomes Z; rows as S, columns: tokens 8n+2t, +1
    float O[8][4];
    wgmma_fence();
    wgmma<false, false>(E, s_a[0], rows_of(k, key0));
#pragma unroll
    for (int s = 1; s < L::kWidth / 16; ++s) {
      wgmma<false, true>(E, s_a[s], rows_of(k, key0 + 16 * s));
    }
    wgmma_commit();
    if constexpr (kOutput) {
      wgmma<false, false>(O, s_a[0], rows_of(q, key0));
#pragma unroll
      for (int s = 1; s < L::kWidth / 16; ++s) {
        wgmma<false, true>(O, s_a[s], rows_of(q, key0 + 16 * s));
      }
      wgmma_commit();
    }
    if (index + 1 < end) {
      load_stage(index + 1, stage ^ 1);
    } else if (L::kLateWriteKey) {
      copy_async_commit();  // the newest group is the next stage, or nothing
    }
    if constexpr (!kOutput) {
      const Tile<L::kWidth, 16> staging{reinterpret_cast<Bf16*>(
          shared + L::kStaging + warp * 16 * L::kWidth * 2)};
#pragma unroll
      for (int s = 0; s < L::kWidth / 16; ++s) {
        store_matrix(staging.unit(lane & 15, 16 * s + (lane >> 4) * 8), s_a[s]);
      }
      __syncwarp();
      Bf16* out = bf16(args.S) + (chunk_head * V + column) * K + key0;
      constexpr int kUnits = L::kWidth / 8, kRows = 32 / kUnits;
#pragma unroll
      for (int i = 0; i < 16 / kRows; ++i) {
        const int row = i * kRows + lane / kUnits, col = lane % kUnits * 8;
        copy_out(out + row * K + col, staging.unit(row, col));
      }
      __syncwarp();
    }
    std::uint32_t v_a[4][4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      load_a_transposed(v_a[s], v, 16 * s, column0, lane);
    }

    wgmma_wait<kOutput ? 1 : 0>();
    pin(E);
    if constexpr (L::kParts > 1) {
      if (L::kSumsInK) __syncthreads();  // everybody is done with k
#pragma unroll
      for (int n = 0; n < 8; ++n) put_partial<8>(sums, E[n], warp, n, lane);
      __syncthreads();
#pragma unroll
      for (int n = 0; n < 8; ++n) add_partial<8>(E[n], sums, warp, n, lane);
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {  // E = V - read KS
      const std::uint32_t* r = v_a[n / 2] + n % 2 * 2;
      const float2 read = token_pair(vec + kVecRead * kChunk, n, lane);
      E[n][0] = low_bf16(r[0]) - read.x * E[n][0];
      E[n][1] = high_bf16(r[0]) - read.y * E[n][1];
      E[n][2] = low_bf16(r[1]) - read.x * E[n][2];
      E[n][3] = high_bf16(r[1]) - read.y * E[n][3];
    }
    std::uint32_t e_a[4][4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const float* beta = vec + kVecBeta * kChunk;
      pack_a_scaled(e_a[s], E[2 * s], E[2 * s + 1],
                    token_pair(beta, 2 * s, lane),
                    token_pair(beta, 2 * s + 1, lane));
    }
    pin(E);
    wgmma_fence();
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      wgmma<false, true>(E, e_a[s], rows_of(n_tile, 16 * s));
    }
    wgmma_commit();
#pragma unroll
    for (int n = 0; n < L::kWidth / 8; ++n) {
      float2 decay;
      if constexpr (kOperands == Operands::kDecayed) {
        decay = token_pair(vectors + L::kDecay / 4 + key0, n, lane);
      } else {
        decay.x = decay.y = vec[kVecDecay * kChunk];
      }
      S[n][0] *= decay.x;
      S[n][1] *= decay.y;
      S[n][2] *= decay.x;
      S[n][3] *= decay.y;
    }
    wgmma_wait<0>();
    pin(E);

    std::uint32_t u_a[kOutput ? 4 : 1][4], write_a[4][4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      if constexpr (!kOutput) {
        // Z goes out through the warp's own columns of v, which it has read.
        if (L::kParts == 1 || s / 2 == part) {
          std::uint32_t r[4];
          pack_a(r, E[2 * s], E[2 * s + 1]);
          store_matrix_transposed(v.unit(16 * s + (lane & 7) + (lane >> 4) * 8,
                                         column0 + ((lane >> 3) & 1) * 8),
                                  r);
        }
      }
#pragma unroll
      for (int n = 2 * s; n < 2 * s + 2; ++n) {  // U = b Z
        const float2 beta = token_pair(vec + kVecBeta * kChunk, n, lane);
        E[n][0] *= beta.x;
        E[n][1] *= beta.y;
        E[n][2] *= beta.x;
        E[n][3] *= beta.y;
      }
      const float* write = vec + kVecWrite * kChunk;
      pack_a_scaled(write_a[s], E[2 * s], E[2 * s + 1],
                    token_pair(write, 2 * s, lane),
                    token_pair(write, 2 * s + 1, lane));
      if constexpr (kOutput) pack_a(u_a[s], E[2 * s], E[2 * s + 1]);
    }
    if constexpr (L::kLateWriteKey) {
      copy_async_wait<1>();
      fence_shared_for_wgmma();
      __syncthreads();  // kt has arrived; everybody has read the partial sums
    }
    pin(S);
    wgmma_fence();
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      wgmma<true, true>(S, write_a[s], columns_of(kt, 16 * s, key0));
    }
    wgmma_commit();
    if constexpr (kOutput) {
      pin(O);
#pragma unroll
      for (int n = 0; n < 8; ++n) {
        const float2 query = token_pair(vec + kVecQuery * kChunk, n, lane);
        O[n][0] *= query.x;
        O[n][1] *= query.y;
        O[n][2] *= query.x;
        O[n][3] *= query.y;
      }
      pin(O);
      std::uint32_t half_u_a[2][4];
      if constexpr (L::kParts > 1) {
        select_a(half_u_a[0], u_a[0], u_a[2], part > 0);
        select_a(half_u_a[1], u_a[1], u_a[3], part > 0);
      }
      wgmma_fence();
      if constexpr (L::kParts == 1) {
#pragma unroll
        for (int s = 0; s < 4; ++s) {
          wgmma<false, true>(O, u_a[s], rows_of(p_tile, 16 * s));
        }
      } else {  // the tokens of U, too, are halved
#pragma unroll
        for (int s = 0; s < 2; ++s) {
          wgmma<false, true>(O, half_u_a[s],
                             rows_of(p_tile, 32 * part + 16 * s));
        }
      }
      wgmma_commit();
      wgmma_wait<0>();
      pin(O);
      if constexpr (L::kParts > 1) {
        float4* output_sums = L::kSumsInK ? sums : sums + kWarps * 8 * 32;
#pragma unroll
        for (int n = 0; n < 8; ++n) {
          if (n / 4 != part)
            put_partial<4>(output_sums, O[n], warp, n % 4, lane);
        }
        __syncthreads();
#pragma unroll
        for (int n = 0; n < 8; ++n) {
          if (n / 4 == part)
            add_partial<4>(O[n], output_sums, warp, n % 4, lane);
        }
      }
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        if (L::kParts > 1 && s / 2 != part) continue;
        float scaled[2][4];
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          scaled[e / 4][e % 4] = args.scale * O[2 * s + e / 4][e % 4];
        }
        std::uint32_t r[4];
        pack_a(r, scaled[0], scaled[1]);
        store_matrix_transposed(v.unit(16 * s + (lane & 7) + (lane >> 4) * 8,
                                       column0 + ((lane >> 3) & 1) * 8),
                                r);
      }
    }
    __syncwarp();
    {
      // o or Z, through the warp's own columns of v.
      const int rows = kOutput ? args.chunks[index].rows : kChunk;
      const std::int64_t stride = kOutput ? value_stride : V;
      Bf16* out = kOutput ? bf16(args.o) +
                                (args.chunks[index].first * args.HV + hv) * V +
                                column
                          : bf16(args.Z) + chunk_head * kChunk * V + column;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 16 * i + lane / 2, col = lane % 2 * 8;
        if (row < rows && (L::kParts == 1 || i / 2 == part)) {
          copy_out(out + row * stride + col, v.unit(row, column0 + col));
        }
      }
    }
    wgmma_wait<0>();
    pin(S);
  }

  if (kOutput && args.state_T != nullptr) {
#pragma unroll
    for (int n = 0; n < L::kWidth / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        args.state_T[state + (8 * n + 2 * t + e % 2) * V + (e / 2) * 8] =
            S[n][e];
      }
    }
  }
}

template <int K, int kWarps, Operands kOperands>
__global__ void __launch_bounds__(32 * kWarps) scan(const Args args) {
  run_scan<K, kWarps, kOperands, true>(args, blockIdx.x);
}

template <int K, int kWarps, Operands kOperands>
void launch_scan(const Args& args, Stream stream) {
  using L = Scan<K, kWarps, kOperands, true>;
  launch("delta_rule scan", scan<K, kWarps, kOperands>,
         args.N * args.HV * (args.V / L::kCols), L::kThreads, L::kSharedBytes,
         stream, args);
}

}  // namespace osdn::kernels::delta_rule::chunk
