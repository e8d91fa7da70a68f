#pragma once
// B2: from the last chunk to the first, dS^T [V,K] (times K^1/2) in fp32
// accumulators, one warpgroup per 64 value columns, as the scan.
//
//   dU^T = write (kt dS)^T + dO^T P;  X^T = dU^T + (b dU)^T n
//   dS^T = decay dS^T + (query dO)^T Q - (read b X)^T K
//
// Writes dS at each chunk's end, X, and at the end grad_state0.

#include "kernels/common/wgmma.cuh"
#include "kernels/delta_rule/chunk_common.cuh"

namespace osdn::kernels::delta_rule::chunk {

template <int K, int kWarps, Operands kOperands>
struct Reverse {
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kCols = 16 * kWarps;
  static constexpr int kKeyBytes = kChunk * K * 2;
  static constexpr int kPairBytes = kChunk * kChunk * 2;
  static constexpr int kK = 0;
  static constexpr int kKt = kOperands == Operands::kRaw ? kK : kK + kKeyBytes;
  static constexpr int kQ = kKt + kKeyBytes;
  static constexpr int kGradO = kQ + kKeyBytes;
  static constexpr int kNTile = kGradO + kChunk * kCols * 2;
  static constexpr int kP = kNTile + kPairBytes;
  static constexpr int kVec = kP + kPairBytes;
  static constexpr int kFirstVec = kVecBeta;
  static constexpr int kVecFloats = (kVectors - kFirstVec) * kChunk;
  static constexpr int kDecay = kVec + kVecFloats * 4;  ///< per channel
  static constexpr int kStageEnd =
      kDecay + (kOperands == Operands::kDecayed ? K * 4 : 0);
  static constexpr int kStageBytes = (kStageEnd + 1023) / 1024 * 1024;
  static constexpr int kStaging = 2 * kStageBytes;  ///< dS, 16 rows a warp
  static constexpr int kSharedBytes = kStaging + kWarps * 16 * K * 2;
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
  const int column = slice * L::kCols + 16 * warp;
  const int V = args.V;
  unsigned char* shared = dynamic_shared();

  const std::int64_t key_stride = static_cast<std::int64_t>(args.H) * K;
  const std::int64_t write_stride = static_cast<std::int64_t>(args.HV) * K;
  const std::int64_t value_stride = static_cast<std::int64_t>(args.HV) * V;
  const auto load_stage = [&](std::int64_t chunk_index, int stage) {
    const ChunkInfo chunk = args.chunks[chunk_index];
    const std::int64_t chunk_head = chunk_index * args.HV + hv;
    unsigned char* base = shared + stage * L::kStageBytes;
    const std::int64_t key_at = (chunk.first * args.H + h) * K;
    const std::int64_t decayed_at = chunk_head * kChunk * K;
    const auto load_keys = [&](int to, const void* raw, std::int64_t at,
                               std::int64_t stride, const void* decayed) {
      const Tile<K> tile{reinterpret_cast<Bf16*>(base + to)};
      if constexpr (kOperands == Operands::kDecayed) {
        load_tile<kChunk, K, L::kThreads>(tile, bf16(decayed) + decayed_at, K,
                                          kChunk, thread);
      } else {
        load_tile<kChunk, K, L::kThreads>(tile, bf16(raw) + at, stride,
                                          chunk.rows, thread);
      }
    };
    load_keys(L::kK, args.k, key_at, key_stride, args.kg);
    if (kOperands != Operands::kRaw) {
      load_keys(L::kKt, args.kt, (chunk.first * args.HV + hv) * K, write_stride,
                args.kd);
    }
    if (kOperands == Operands::kDecayed) {
      load_floats_async<K>(reinterpret_cast<float*>(base + L::kDecay),
                           args.channel_decay + chunk_head * K, thread);
    }
    load_keys(L::kQ, args.q, key_at, key_stride, args.qg);
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
        reinterpret_cast<float*>(base + L::kVec),
        args.vectors + (chunk_head * kVectors + L::kFirstVec) * kChunk, thread);
    copy_async_commit();
  };

  const std::int64_t begin = args.first_chunk[document];
  const std::int64_t end = args.first_chunk[document + 1];
  if (begin < end) load_stage(end - 1, 0);

  float dS[K / 8][4];  // rows: value columns g, g+8; columns: keys 8n+2t, +1
  const std::int64_t state = unit * K * V + column + g;
  const float unscale = 1.f / args.scale;
#pragma unroll
  for (int n = 0; n < K / 8; ++n) {
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
  const Tile<K, 16> staging{
      reinterpret_cast<Bf16*>(shared + L::kStaging + warp * 16 * K * 2)};

  for (std::int64_t index = end - 1; index >= begin; --index) {
    const int stage = static_cast<int>((end - 1 - index) & 1);
    unsigned char* base = shared + stage * L::kStageBytes;
    const Tile<K> k{reinterpret_cast<Bf16*>(base + L::kK)};
    const Tile<K> kt{reinterpret_cast<Bf16*>(base + L::kKt)};
    const Tile<K> q{reinterpret_cast<Bf16*>(base + L::kQ)};
    const Tile<L::kCols> grad_o{reinterpret_cast<Bf16*>(base + L::kGradO)};
    const Tile<kChunk> n_tile{reinterpret_cast<Bf16*>(base + L::kNTile)};
    const Tile<kChunk> p_tile{reinterpret_cast<Bf16*>(base + L::kP)};
    const float* vec =
        reinterpret_cast<const float*>(base + L::kVec) - L::kFirstVec * kChunk;
    const std::int64_t chunk_head = index * args.HV + hv;

    copy_async_wait<0>();
    fence_shared_for_wgmma();
    __syncthreads();

    std::uint32_t s_a[K / 16][4];
#pragma unroll
    for (int s = 0; s < K / 16; ++s) pack_a(s_a[s], dS[2 * s], dS[2 * s + 1]);
    float X[8][4];  // first dU; rows as dS, columns: tokens 8n+2t, +1
    wgmma_fence();
    wgmma<false, false>(X, s_a[0], rows_of(kt, 0));
#pragma unroll
    for (int s = 1; s < K / 16; ++s) {
      wgmma<false, true>(X, s_a[s], rows_of(kt, 16 * s));
    }
    wgmma_commit();
    if (index > begin) load_stage(index - 1, stage ^ 1);
#pragma unroll
    for (int s = 0; s < K / 16; ++s) {
      store_matrix(staging.unit(lane & 15, 16 * s + (lane >> 4) * 8), s_a[s]);
    }
    __syncwarp();
    {
      Bf16* out = bf16(args.dS) + (chunk_head * V + column) * K;
      constexpr int kUnits = K / 8, kRows = 32 / kUnits;
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
      load_a_transposed(go[s], grad_o, 16 * s, 16 * warp, lane);
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
    wgmma_fence();
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      wgmma<true, true>(X, go[s], columns_of(p_tile, 16 * s));
    }
    wgmma_commit();
#pragma unroll
    for (int n = 0; n < K / 8; ++n) {
      float2 decay;
      if constexpr (kOperands == Operands::kDecayed) {
        decay = token_pair(reinterpret_cast<const float*>(base + L::kDecay), n,
                           lane);
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
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      wgmma<true, true>(dS, query_a[s], columns_of(q, 16 * s));
    }
    wgmma_commit();
    wgmma_wait<1>();
    pin(X);
    std::uint32_t pull_a[4][4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      // X goes out through the warp's own columns of dO, which it has read.
      std::uint32_t r[4];
      pack_a(r, X[2 * s], X[2 * s + 1]);
      store_matrix_transposed(grad_o.unit(16 * s + (lane & 7) + (lane >> 4) * 8,
                                          16 * warp + ((lane >> 3) & 1) * 8),
                              r);
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
      wgmma<true, true>(dS, pull_a[s], columns_of(k, 16 * s));
    }
    wgmma_commit();
    __syncwarp();
    {
      Bf16* out = bf16(args.X) + chunk_head * kChunk * V + column;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = 16 * i + lane / 2, col = lane % 2 * 8;
        copy_out(out + static_cast<std::int64_t>(row) * V + col,
                 grad_o.unit(row, 16 * warp + col));
      }
    }
    wgmma_wait<0>();
    pin(dS);
  }

  if (args.grad_state0 != nullptr) {
#pragma unroll
    for (int n = 0; n < K / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        args.grad_state0[state + (8 * n + 2 * t + e % 2) * V + (e / 2) * 8] =
            args.scale * dS[n][e];
      }
    }
  }
}

}  // namespace osdn::kernels::delta_rule::chunk
