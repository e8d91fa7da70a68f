#pragma once
// B2: from the last chunk to the first, dS^T [V,K] (times K^1/2) in fp32
// accumulators, one warpgroup per 64 value columns, as the scan.
//
//   dU^T = write (kt dS)^T + dO^T P;  X^T = dU^T + (b dU)^T n
//   dS^T = decay dS^T + (query dO)^T Q - (read b X)^T K
//
// Writes dS at each chunk's end, X, and at the end grad_state0.
//
// K = 256 as in the scan: the parts of dU are added up once a chunk, and what
// is needed last (q; k where the write key is another) has one buffer.

#include "kernels/common/wgmma.cuh"
#include "kernels/delta_rule/chunk_common.cuh"

namespace osdn::kernels::delta_rule::chunk {

template <int K, int kWarps, Operands kOperands>
struct Reverse {
  static constexpr int kParts = KeyParts<K>::kCount;
  static constexpr int kWidth = KeyParts<K>::kWidth;  ///< keys of a warp
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kCols = 16 * kWarps / kParts;
  static constexpr int kKeyBytes = kChunk * K * 2;
  static constexpr int kPairBytes = kChunk * kChunk * 2;
  static constexpr bool kWriteKey = kOperands != Operands::kRaw;
  static constexpr bool kLate = kParts > 1;
  static constexpr bool kLateK = kLate && kWriteKey;
  // one stage
  static constexpr int kKt = 0;
  static constexpr int kStageK = kWriteKey && !kLate ? kKeyBytes : kKt;
  static constexpr int kStageQ = kStageK + kKeyBytes;
  static constexpr int kGradO = kLate ? kStageQ : kStageQ + kKeyBytes;
  static constexpr int kNTile = kGradO + kChunk * kCols * 2;
  static constexpr int kP = kNTile + kPairBytes;
  static constexpr int kStageBytes = kP + kPairBytes;
  // once
  static constexpr int kLateQ = 2 * kStageBytes;
  static constexpr int kLateKeys = kLateQ + (kLate ? kKeyBytes : 0);
  /// dS, 16 rows a warp; with parts of the keys, also partial sums.
  static constexpr int kStaging = kLateKeys + (kLateK ? kKeyBytes : 0);
  // a stage's vectors
  static constexpr int kFirstVec = kVecBeta;
  static constexpr int kVecFloats = (kVectors - kFirstVec) * kChunk;
  static constexpr int kVec = kStaging + kWarps * 16 * kWidth * 2;
  static constexpr int kDecay = kVecFloats * 4;  ///< per channel
  static constexpr int kVecBytes =
      kDecay + (kOperands == Operands::kDecayed ? K * 4 : 0);
  static constexpr int kSharedBytes = kVec + 2 * kVecBytes;
  static_assert(kSharedBytes <= 232448, "one block a multiprocessor");
};

/// An A operand of bf16 with its columns (tokens) scaled in fp32.
__device__ __forceinline__ void scale_a(std::uint32_t (&to)[4],
                                        const std::uint32_t (&from)[4],
                                        float2 s1, float2 s2) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 s = i < 2 ? s1 : s2;
    to[i] = pack_bf16(low_bf16(from[i]) * s.x, high_bf16(from[i]) * s.y);
  }
}

template <int K, int kWarps, Operands kOperands>
__device__ __forceinline__ void run_reverse(const Args& args, unsigned block) {
  using L = Reverse<K, kWarps, kOperands>;
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
  const int key0 = part * L::kWidth;
  const int column0 = L::kParts > 1 ? 16 * (warp % 4) : 16 * warp;
  const int column = slice * L::kCols + column0;
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
  const auto load_k = [&](unsigned char* to, std::int64_t chunk_index,
                          ChunkInfo chunk) {
    load_keys(to, chunk_index, chunk, args.k, (chunk.first * args.H + h) * K,
              key_stride, args.kg);
  };
  const auto load_q = [&](unsigned char* to, std::int64_t chunk_index,
                          ChunkInfo chunk) {
    load_keys(to, chunk_index, chunk, args.q, (chunk.first * args.H + h) * K,
              key_stride, args.qg);
  };
  const auto load_stage = [&](std::int64_t chunk_index, int stage) {
    const ChunkInfo chunk = args.chunks[chunk_index];
    const std::int64_t chunk_head = chunk_index * args.HV + hv;
    unsigned char* base = shared + stage * L::kStageBytes;
    float* vec =
        reinterpret_cast<float*>(shared + L::kVec + stage * L::kVecBytes);
    if (!L::kLateK) load_k(base + L::kStageK, chunk_index, chunk);
    if (L::kWriteKey) {
      load_keys(base + L::kKt, chunk_index, chunk, args.kt,
                (chunk.first * args.HV + hv) * K, write_stride, args.kd);
    }
    if (kOperands == Operands::kDecayed) {
      load_floats_async<K>(vec + L::kDecay / 4,
                           args.channel_decay + chunk_head * K, thread);
    }
    if (!L::kLate) load_q(base + L::kStageQ, chunk_index, chunk);
    load_tile<kChunk, L::kCols, L::kThreads>(
        {reinterpret_cast<Bf16*>(base + L::kGradO)},
        bf16(args.grad_o) + (chunk.first * args.HV + hv) * V + slice * L::kCols,
        value_stride, chunk.rows, thread);
    load_tile<kChunk, kChunk, L::kThreads>(
        {reinterpret_cast<Bf16*>(base + L::kNTile)},
        bf16(args.n) + chunk_head * kChunk * kChunk, kChunk, kChunk, thread);
    load_tile<kChunk, kChunk, L::kThreads>(
        {reinterpret_cast<Bf16*>(base + L::kP)},
        bf16(args.P) + chunk_head * kChunk * kChunk, kChunk, kChunk, thread);
    load_floats_async<L::kVecFloats>(
        vec, args.vectors + (chunk_head * kVectors + L::kFirstVec) * kChunk,
        thread);
    copy_async_commit();
  };

  const std::int64_t begin = args.first_chunk[document];
  const std::int64_t end = args.first_chunk[document + 1];
  if (begin < end) load_stage(end - 1, 0);

  // rows: value columns g, g+8; columns: keys key0 + 8n+2t, +1
  float dS[L::kWidth / 8][4];
  const std::int64_t state = (unit * K + key0) * V + column + g;
  const float unscale = 1.f / args.scale;
#pragma unroll
  for (int n = 0; n < L::kWidth / 8; ++n) {
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      dS[n][e] =
          args.grad_state_T == nullptr
              ? 0.f
              : unscale *
                    args.grad_state_T[state + (8 * n + 2 * t + e % 2) * V +
                                      (e / 2) * 8];
    }
  }
  const Tile<L::kWidth, 16> staging{reinterpret_cast<Bf16*>(
      shared + L::kStaging + warp * 16 * L::kWidth * 2)};
  float4* sums = reinterpret_cast<float4*>(shared + L::kStaging);

  for (std::int64_t index = end - 1; index >= begin; --index) {
    const int stage = static_cast<int>((end - 1 - index) & 1);
    unsigned char* base = shared + stage * L::kStageBytes;
    const Tile<K> k{reinterpret_cast<Bf16*>(L::kLateK ? shared + L::kLateKeys
                                                      : base + L::kStageK)};
    const Tile<K> kt{reinterpret_cast<Bf16*>(base + L::kKt)};
    const Tile<K> q{reinterpret_cast<Bf16*>(L::kLate ? shared + L::kLateQ
                                                     : base + L::kStageQ)};
    const Tile<L::kCols> grad_o{reinterpret_cast<Bf16*>(base + L::kGradO)};
    const Tile<kChunk> n_tile{reinterpret_cast<Bf16*>(base + L::kNTile)};
    const Tile<kChunk> p_tile{reinterpret_cast<Bf16*>(base + L::kP)};
    const float* vectors =
        reinterpret_cast<const float*>(shared + L::kVec + stage * L::kVecBytes);
    const float* vec = vectors - L::kFirstVec * kChunk;
    const std::int64_t chunk_head = index * args.HV + hv;

    copy_async_wait<0>();
    fence_shared_for_wgmma();
    __syncthreads();

    if constexpr (L::kLate) {
      const ChunkInfo chunk = args.chunks[index];
      load_q(shared + L::kLateQ, index, chunk);
      if (L::kLateK) load_k(shared + L::kLateKeys, index, chunk);
      copy_async_commit();
    }
    std::uint32_t s_a[L::kWidth / 16][4];
#pragma unroll
    for (int s = 0; s < L::kWidth / 16; ++s)
      pack_a(s_a[s], dS[2 * s], dS[2 * s + 1]);
    float X[8][4];  // first dU; rows as dS, columns: tokens 8n+2t, +1
    wgmma_fence();
    wgmma<false, false>(X, s_a[0], rows_of(kt, key0));
#pragma unroll
    for (int s = 1; s < L::kWidth / 16; ++s) {
      wgmma<false, true>(X, s_a[s], rows_of(kt, key0 + 16 * s));
    }
    wgmma_commit();
    if (index > begin) {
      load_stage(index - 1, stage ^ 1);
    } else if (L::kLate) {
      copy_async_commit();  // the newest group is the next stage, or nothing
    }
#pragma unroll
    for (int s = 0; s < L::kWidth / 16; ++s) {
      store_matrix(staging.unit(lane & 15, 16 * s + (lane >> 4) * 8), s_a[s]);
    }
    __syncwarp();
    {
      Bf16* out = bf16(args.dS) + (chunk_head * V + column) * K + key0;
      constexpr int kUnits = L::kWidth / 8, kRows = 32 / kUnits;
#pragma unroll
      for (int i = 0; i < 16 / kRows; ++i) {
        const int row = i * kRows + lane / kUnits, col = lane % kUnits * 8;
        copy_out(out + row * K + col, staging.unit(row, col));
      }
    }
    __syncwarp();
    std::uint32_t go[4][4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      load_a_transposed(go[s], grad_o, 16 * s, column0, lane);
    }

    wgmma_wait<0>();
    pin(X);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      const float2 write = token_pair(vec + kVecWrite * kChunk, n, lane);
      X[n][0] *= write.x;
      X[n][1] *= write.y;
      X[n][2] *= write.x;
      X[n][3] *= write.y;
    }
    pin(X);
    std::uint32_t half_go[2][4];
    if constexpr (L::kParts > 1) {  // the tokens of dO, too, are halved
      select_a(half_go[0], go[0], go[2], part > 0);
      select_a(half_go[1], go[1], go[3], part > 0);
    }
    wgmma_fence();
    if constexpr (L::kParts == 1) {
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        wgmma<true, true>(X, go[s], columns_of(p_tile, 16 * s));
      }
    } else {
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        wgmma<true, true>(X, half_go[s],
                          columns_of(p_tile, 32 * part + 16 * s));
      }
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
      dS[n][0] *= decay.x;
      dS[n][1] *= decay.y;
      dS[n][2] *= decay.x;
      dS[n][3] *= decay.y;
    }
    std::uint32_t query_a[4][4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const float* query = vec + kVecQuery * kChunk;
      scale_a(query_a[s], go[s], token_pair(query, 2 * s, lane),
              token_pair(query, 2 * s + 1, lane));
    }
    wgmma_wait<0>();
    pin(X);
    if constexpr (L::kParts > 1) {
#pragma unroll
      for (int n = 0; n < 8; ++n) put_partial<8>(sums, X[n], warp, n, lane);
      __syncthreads();
#pragma unroll
      for (int n = 0; n < 8; ++n) add_partial<8>(X[n], sums, warp, n, lane);
    }
    std::uint32_t x_a[4][4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const float* beta = vec + kVecBeta * kChunk;
      pack_a_scaled(x_a[s], X[2 * s], X[2 * s + 1],
                    token_pair(beta, 2 * s, lane),
                    token_pair(beta, 2 * s + 1, lane));
    }
    pin(X);
    pin(dS);
    wgmma_fence();
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      wgmma<true, true>(X, x_a[s], columns_of(n_tile, 16 * s));
    }
    wgmma_commit();
    if constexpr (L::kLate) {
      copy_async_wait<1>();
      fence_shared_for_wgmma();
      __syncthreads();  // q (and k) have arrived
    }
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      wgmma<true, true>(dS, query_a[s], columns_of(q, 16 * s, key0));
    }
    wgmma_commit();
    wgmma_wait<1>();
    pin(X);
    std::uint32_t pull_a[4][4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      // X goes out through the warp's own columns of dO, which it has read.
      if (L::kParts == 1 || s / 2 == part) {
        std::uint32_t r[4];
        pack_a(r, X[2 * s], X[2 * s + 1]);
        store_matrix_transposed(
            grad_o.unit(16 * s + (lane & 7) + (lane >> 4) * 8,
                        column0 + ((lane >> 3) & 1) * 8),
            r);
      }
      float2 pull[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 beta =
            token_pair(vec + kVecBeta * kChunk, 2 * s + half, lane);
        const float2 read =
            token_pair(vec + kVecRead * kChunk, 2 * s + half, lane);
        pull[half] = make_float2(-beta.x * read.x, -beta.y * read.y);
      }
      pack_a_scaled(pull_a[s], X[2 * s], X[2 * s + 1], pull[0], pull[1]);
    }
    wgmma_fence();
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      wgmma<true, true>(dS, pull_a[s], columns_of(k, 16 * s, key0));
    }
    wgmma_commit();
    __syncwarp();
    {
      Bf16* out = bf16(args.X) + chunk_head * kChunk * V + column;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 16 * i + lane / 2, col = lane % 2 * 8;
        if (L::kParts == 1 || i / 2 == part) {
          copy_out(out + static_cast<std::int64_t>(row) * V + col,
                   grad_o.unit(row, column0 + col));
        }
      }
    }
    wgmma_wait<0>();
    pin(dS);
  }

  if (args.grad_state0 != nullptr) {
#pragma unroll
    for (int n = 0; n < L::kWidth / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        args.grad_state0[state + (8 * n + 2 * t + e % 2) * V + (e / 2) * 8] =
            args.scale * dS[n][e];
      }
    }
  }
}

}  // namespace osdn::kernels::delta_rule::chunk
