#pragma once
// B3: all gradients of one (chunk, key head) from S, dS, Z, X. Persistent
// blocks of 16 warps, 4 row groups times 4 column groups, that take slots of
// 64 value columns through two buffers; dq, dk, dkt [64,K] and dP, dA [64,64]
// stay in fp32 accumulators.
//
//   dq = query dO S + dP' kt;  dk = -b read X S + dA' kt
//   dkt = b write Z dS + dA'^T k + dP'^T q       (raw operands, fixed norms)
//   dP'_ij = b_j rq_i rk_j e^(G_i - G_j) <dO_i, Z_j>,                 j <= i
//   dA'_ij = -b_i b_j rk_i rk_j e^(G_i - G_j) <X_i, Z_j>,             j < i
//   dG_i = <q, dq> + <k, dk> - <kt, dkt>
//
// dP' and dA' are rounded once and serve both of their products: dG lives on
// that cancellation. Value heads of a key head follow one another and add in
// registers (kGrouped).

#include "kernels/delta_rule/chunk_gradients_channel.cuh"

namespace osdn::kernels::delta_rule::chunk {

template <int K, bool kSeparateKey, bool kChannel>
struct Gradients {
  static constexpr int kThreads = 512;
  static constexpr int kSlot = 64;  ///< value columns of a slot
  static constexpr int kKeyBytes = kChunk * K * 2;
  static constexpr int kPairBytes = kChunk * kChunk * 2;
  static constexpr int kSlotBytes = kChunk * kSlot * 2;
  static constexpr int kStateBytes = kSlot * K * 2;
  static constexpr int kQ = 0;
  static constexpr int kK = kQ + kKeyBytes;
  static constexpr int kKt = kSeparateKey ? kK + kKeyBytes : kK;
  static constexpr int kG = kKt + kKeyBytes;  ///< per-channel decays
  static constexpr int kDA = kG + (kChannel ? Decays<K>::kBytes : 0);
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
  static constexpr int kStateDots = kEnds + 64;              ///< [16 warps][K]
  static constexpr int kSharedBytes = kStateDots + (kChannel ? 16 * K * 4 : 0);
  static_assert(kSharedBytes <= 232448, "one block a multiprocessor");
};

enum Dot { kDotQ, kDotK, kDotKt, kDotBeta };

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

template <int K, bool kSeparateKey, bool kGrouped, bool kChannel>
__global__ void __launch_bounds__(512, 1) gradients(const Args args) {
  using L = Gradients<K, kSeparateKey, kChannel>;
  constexpr int kPairs = K / 64;  // 16-column pairs of a column group
  constexpr int kTiles = 2 * kPairs;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32, lane = thread % 32;
  const int g = lane >> 2, t = lane & 3;
  const int row_group = warp / 4, column_group = warp % 4;
  const int row0 = 16 * row_group, col0 = 16 * kPairs * column_group;
  const int V = args.V;
  const int slots = V / L::kSlot;
  const int heads = kGrouped ? args.HV / args.H : 1;
  const bool gated = args.gate == DeltaRuleGate::kPerHead;
  unsigned char* shared = dynamic_shared();
  const Tile<K> q{reinterpret_cast<Bf16*>(shared + L::kQ)};
  const Tile<K> k{reinterpret_cast<Bf16*>(shared + L::kK)};
  const Tile<K> kt{reinterpret_cast<Bf16*>(shared + L::kKt)};
  const Decays<K> G{reinterpret_cast<float*>(shared + L::kG)};
  const Tile<kChunk> dA{reinterpret_cast<Bf16*>(shared + L::kDA)};
  const Tile<kChunk> dP{reinterpret_cast<Bf16*>(shared + L::kDP)};
  float* dots = reinterpret_cast<float*>(shared + L::kDots);
  float* ends = reinterpret_cast<float*>(shared + L::kEnds);
  float* state_dots = reinterpret_cast<float*>(shared + L::kStateDots);

  const std::int64_t key_stride = static_cast<std::int64_t>(args.H) * K;
  const std::int64_t write_stride = static_cast<std::int64_t>(args.HV) * K;
  const std::int64_t value_stride = static_cast<std::int64_t>(args.HV) * V;
  // (Chunk, key head) pairs; F1's grid has as many blocks or more, so 32 bits
  // hold them.
  const int items = args.first_chunk[args.N] * args.H;
  const int stride = static_cast<int>(gridDim.x);

  const auto load_keys = [&](int h, int head, ChunkInfo chunk) {
    const std::int64_t key_at = (chunk.first * args.H + h) * K;
    load_tile<kChunk, K, L::kThreads>(q, bf16(args.q) + key_at, key_stride,
                                      chunk.rows, thread);
    load_tile<kChunk, K, L::kThreads>(k, bf16(args.k) + key_at, key_stride,
                                      chunk.rows, thread);
    if (kSeparateKey) {
      load_tile<kChunk, K, L::kThreads>(
          kt, bf16(args.kt) + (chunk.first * args.HV + h * heads + head) * K,
          write_stride, chunk.rows, thread);
    }
    if constexpr (kChannel) {
      load_decays<K, L::kThreads>(
          G, args.g + (chunk.first * args.HV + h * heads + head) * K,
          write_stride, chunk.rows, thread);
    }
  };
  const auto load_slot = [&](int item, int head, int slot, int buffer,
                             ChunkInfo chunk) {
    const std::int64_t chunk_index = item / args.H;
    const int hv = item % args.H * heads + head;
    const std::int64_t chunk_head = chunk_index * args.HV + hv;
    unsigned char* base = shared + L::kBuffers + buffer * L::kBufferBytes;
    const int v0 = slot * L::kSlot;
    const auto tile = [&](int at) {
      return Tile<L::kSlot>{reinterpret_cast<Bf16*>(base + at)};
    };
    load_tile<kChunk, L::kSlot, L::kThreads>(
        tile(L::kGradO),
        bf16(args.grad_o) + (chunk.first * args.HV + hv) * V + v0, value_stride,
        chunk.rows, thread);
    const std::int64_t value_at = chunk_head * kChunk * V + v0;
    load_tile<kChunk, L::kSlot, L::kThreads>(
        tile(L::kX), bf16(args.X) + value_at, V, kChunk, thread);
    load_tile<kChunk, L::kSlot, L::kThreads>(
        tile(L::kZ), bf16(args.Z) + value_at, V, kChunk, thread);
    const std::int64_t state_at = (chunk_head * V + v0) * K;
    load_tile<L::kSlot, K, L::kThreads>({reinterpret_cast<Bf16*>(base + L::kS)},
                                        bf16(args.S) + state_at, K, L::kSlot,
                                        thread);
    load_tile<L::kSlot, K, L::kThreads>(
        {reinterpret_cast<Bf16*>(base + L::kDS)}, bf16(args.dS) + state_at, K,
        L::kSlot, thread);
    load_floats_async<kVectors * kChunk>(
        reinterpret_cast<float*>(base + L::kVec),
        args.vectors + chunk_head * kVectors * kChunk, thread);
  };

  // Chunks are read one item early: a block must not wait for them.
  int item = static_cast<int>(blockIdx.x), head = 0, slot = 0, buffer = 0;
  ChunkInfo chunk{0, 0, 0}, next_chunk{0, 0, 0};
  if (item < items) {
    chunk = args.chunks[item / args.H];
    load_slot(item, 0, 0, 0, chunk);
  }
  if (item + stride < items) next_chunk = args.chunks[(item + stride) / args.H];
  copy_async_commit();

  float dq[kTiles][4], dk[kTiles][4], dkt[kTiles][4], dp[2][4], da[2][4];
  float dq_sum[kGrouped ? kTiles : 1][4], dk_sum[kGrouped ? kTiles : 1][4];
  float q_sum[2], k_sum[2];  // row dots over the value heads
  float dbeta[2], state_dot;

  while (item < items) {
    copy_async_wait<0>();
    __syncthreads();
    if (slot == 0) {
      load_keys(item % args.H, head, chunk);
      copy_async_commit();
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          dq[n][e] = dk[n][e] = dkt[n][e] = 0.f;
          if (kGrouped && head == 0) dq_sum[n][e] = dk_sum[n][e] = 0.f;
        }
      }
#pragma unroll
      for (int e = 0; e < 8; ++e) dp[e / 4][e % 4] = da[e / 4][e % 4] = 0.f;
      dbeta[0] = dbeta[1] = state_dot = 0.f;
      if (kGrouped && head == 0) {
        q_sum[0] = q_sum[1] = k_sum[0] = k_sum[1] = 0.f;
      }
    }
    // What comes after this slot.
    int next_item = item, next_head = head, next_slot = slot + 1;
    if (next_slot == slots) {
      next_slot = 0;
      if (++next_head == heads) {
        next_head = 0;
        next_item += stride;
      }
    }
    if (next_item < items) {
      load_slot(next_item, next_head, next_slot, buffer ^ 1,
                next_item == item ? chunk : next_chunk);
    }
    copy_async_commit();

    const int h = item % args.H;
    const int hv = h * heads + head;
    unsigned char* base = shared + L::kBuffers + buffer * L::kBufferBytes;
    const Tile<L::kSlot> grad_o{reinterpret_cast<Bf16*>(base + L::kGradO)};
    const Tile<L::kSlot> X{reinterpret_cast<Bf16*>(base + L::kX)};
    const Tile<L::kSlot> Z{reinterpret_cast<Bf16*>(base + L::kZ)};
    const Tile<K> S{reinterpret_cast<Bf16*>(base + L::kS)};
    const Tile<K> dS{reinterpret_cast<Bf16*>(base + L::kDS)};
    const float* vec = reinterpret_cast<const float*>(base + L::kVec);
    const float* beta = vec + kVecBeta * kChunk;

    {  // dv = K^-1/2 b X
      const int row = thread / 8, col = thread % 8 * 8;
      if (row < chunk.rows) {
        const uint4 x = *reinterpret_cast<const uint4*>(X.unit(row, col));
        const float f = args.scale * beta[row];
        const std::uint32_t in[4] = {x.x, x.y, x.z, x.w};
        std::uint32_t out[4];
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          out[w] = pack_bf16(f * low_bf16(in[w]), f * high_bf16(in[w]));
        }
        *reinterpret_cast<uint4*>(bf16(args.grad_v) +
                                  (chunk.first * args.HV + hv) * V +
                                  row * value_stride + slot * L::kSlot + col) =
            uint4{out[0], out[1], out[2], out[3]};
      }
    }
    if constexpr (kChannel) {
      // <S, dS> of the thread's eight channels, summed over the warp and kept
      // in shared memory from slot to slot.
      float dot[8] = {};
#pragma unroll
      for (int i = 0; i < L::kSlot * K / 8 / L::kThreads; ++i) {
        const int at = i * L::kThreads + thread;
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
        if (lane < K / 8) *sum = slot == 0 ? dot[e] : *sum + dot[e];
      }
    }
    if (gated) {
#pragma unroll
      for (int i = 0; i < L::kSlot * K / 8 / L::kThreads; ++i) {
        const int at = i * L::kThreads + thread;
        const int row = at / (K / 8), col = at % (K / 8) * 8;
        const uint4 a = *reinterpret_cast<const uint4*>(S.unit(row, col));
        const uint4 b = *reinterpret_cast<const uint4*>(dS.unit(row, col));
        state_dot += dot_pair(a.x, b.x) + dot_pair(a.y, b.y) +
                     dot_pair(a.z, b.z) + dot_pair(a.w, b.w);
      }
    }
    // Rolled where registers are short.
#pragma unroll(kChannel ? 1 : 4)
    for (int s = 0; s < L::kSlot / 16; ++s) {
      std::uint32_t o_a[4], x_a[4], z_a[4], b[4];
      load_a(o_a, grad_o, row0, 16 * s, lane);
      load_a(x_a, X, row0, 16 * s, lane);
      load_a(z_a, Z, row0, 16 * s, lane);
      if (s == column_group) {
        dbeta[0] += dot_pair(x_a[0], z_a[0]) + dot_pair(x_a[2], z_a[2]);
        dbeta[1] += dot_pair(x_a[1], z_a[1]) + dot_pair(x_a[3], z_a[3]);
      }
      if (column_group <= row_group) {
        load_b(b, Z, 16 * column_group, 16 * s, lane);
        mma_bf16(dp[0], o_a, b[0], b[1]);
        mma_bf16(dp[1], o_a, b[2], b[3]);
        mma_bf16(da[0], x_a, b[0], b[1]);
        mma_bf16(da[1], x_a, b[2], b[3]);
      }
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        load_b_transposed(b, S, 16 * s, col0 + 16 * p, lane);
        mma_bf16(dq[2 * p], o_a, b[0], b[1]);
        mma_bf16(dq[2 * p + 1], o_a, b[2], b[3]);
        mma_bf16(dk[2 * p], x_a, b[0], b[1]);
        mma_bf16(dk[2 * p + 1], x_a, b[2], b[3]);
        load_b_transposed(b, dS, 16 * s, col0 + 16 * p, lane);
        mma_bf16(dkt[2 * p], z_a, b[0], b[1]);
        mma_bf16(dkt[2 * p + 1], z_a, b[2], b[3]);
      }
    }

    if (slot + 1 == slots) {
      // Scratch in this slot's buffer, once everybody is done with it.
      using Scratch = ChannelScratch<K>;
      float* channel_ends =
          reinterpret_cast<float*>(base + L::kGradO + Scratch::kToEnd);
      float* segments =
          reinterpret_cast<float*>(base + L::kGradO + Scratch::kSegments);
      float* dG = reinterpret_cast<float*>(base + L::kS);  // [64][K]
      static_assert(!kChannel || (Scratch::kEnd <= 3 * L::kSlotBytes &&
                                  kChunk * 4 <= 4 * L::kSlot));
      copy_async_wait<1>();  // q, k, kt; the next slot may still be under way
      __syncthreads();
      const int rows2[2] = {row0 + g, row0 + g + 8};
      float to_end = 0;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = rows2[half];
        // Per channel, the decay is channel_products' business.
        const float query = vec[(kChannel ? kVecRq : kVecQuery) * kChunk + i];
        const float read =
            -beta[i] * vec[(kChannel ? kVecRk : kVecRead) * kChunk + i];
        const float write =
            beta[i] * vec[(kChannel ? kVecRk : kVecWrite) * kChunk + i];
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            dq[n][2 * half + e] *= query;
            dk[n][2 * half + e] *= read;
            dkt[n][2 * half + e] *= write;
          }
          if (gated) {
            to_end += dot_pair(tile_pair(kt, i, col0 + 8 * n, t),
                               dkt[n][2 * half], dkt[n][2 * half + 1]);
          }
        }
        const float* log_decay = vec + kVecG * kChunk;
        const float* rk = vec + kVecRk * kChunk;
#pragma unroll
        for (int n = 0; n < 2; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int j = 16 * column_group + 8 * n + 2 * t + e;
            float a = 0, p = 0;
            if (j <= i) {
              const float f =
                  beta[j] * rk[j] *
                  exp2_nonpositive(fminf(log_decay[i] - log_decay[j], 0.f));
              p = dp[n][2 * half + e] * f * vec[kVecRq * kChunk + i];
              if (j < i) a = -da[n][2 * half + e] * f * beta[i] * rk[i];
            }
            dp[n][2 * half + e] = p;
            da[n][2 * half + e] = a;
          }
        }
      }
      if (column_group <= row_group) {
        std::uint32_t r[4];
        const int row = row0 + (lane & 15);
        const int col = 16 * column_group + (lane >> 4) * 8;
        pack_a(r, dp[0], dp[1]);
        store_matrix(dP.unit(row, col), r);
        pack_a(r, da[0], da[1]);
        store_matrix(dA.unit(row, col), r);
      }
      if (gated) {
        to_end += vec[kVecDecay * kChunk] * state_dot;
        to_end = warp_sum(to_end);
        if (lane == 0) ends[warp] = to_end;
      }
      if constexpr (kChannel) {
        accumulate_decays(G, thread);
      }
      __syncthreads();
      if constexpr (kChannel) {
        float2 end[kTiles];
        channel_products<K, kPairs>(dq, dk, dkt, end, q, k, kt, dA, dP, G,
                                    row_group, col0, lane);
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
          for (int step = 4; step < 32; step *= 2) {
            end[n].x += __shfl_xor_sync(0xffffffffu, end[n].x, step);
            end[n].y += __shfl_xor_sync(0xffffffffu, end[n].y, step);
          }
          const int c = col0 + 8 * n + 2 * t;
          if (g == 0) {
            *reinterpret_cast<float2*>(channel_ends + row_group * K + c) =
                end[n];
          }
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const int i = rows2[half];
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
      } else {
        pair_products<K, kPairs>(dq, dk, dkt, q, k, kt, dA, dP, row_group, col0,
                                 lane);
      }

      // Row dots: over the quad, then over the column groups.
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = rows2[half];
        float dot[4] = {0.f, 0.f, 0.f, dbeta[half]};
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          const int col = col0 + 8 * n;
          dot[kDotQ] += dot_pair(tile_pair(q, i, col, t), dq[n][2 * half],
                                 dq[n][2 * half + 1]);
          dot[kDotK] += dot_pair(tile_pair(k, i, col, t), dk[n][2 * half],
                                 dk[n][2 * half + 1]);
          dot[kDotKt] += dot_pair(tile_pair(kt, i, col, t), dkt[n][2 * half],
                                  dkt[n][2 * half + 1]);
        }
#pragma unroll
        for (int d = 0; d < 4; ++d) {
          dot[d] += __shfl_xor_sync(0xffffffffu, dot[d], 1);
          dot[d] += __shfl_xor_sync(0xffffffffu, dot[d], 2);
          if (t == 0) dots[(d * 4 + column_group) * kChunk + i] = dot[d];
        }
      }
      __syncthreads();
      const auto total = [&](int d, int i) {
        const float* at = dots + d * 4 * kChunk + i;
        return at[0] + at[kChunk] + at[2 * kChunk] + at[3 * kChunk];
      };
      if (thread < chunk.rows) {
        args.grad_beta[(chunk.first + thread) * args.HV + hv] =
            args.scale * total(kDotBeta, thread);
      }
      if constexpr (kChannel) {
        write_channel_gate<K>(
            args.grad_g + (chunk.first * args.HV + hv) * K, write_stride,
            chunk.rows, args.scale, dG, state_dots, channel_ends, segments,
            exp2_nonpositive(fminf(*G.at(kChunk - 1, thread % K), 0.f)),
            thread);
      }
      if (gated && warp == 15) {
        // dg: sum of dG from each token to the chunk's end, two a lane; the
        // last token's dG also holds the decay of the state.
        float x[2], end = 0;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int i = 2 * lane + e;
          x[e] = total(kDotQ, i) + total(kDotK, i) - total(kDotKt, i);
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
        float* out = args.grad_g + chunk.first * args.HV + hv;
        if (2 * lane < chunk.rows) {
          out[2 * lane * args.HV] = args.scale * (sum + end);
        }
        if (2 * lane + 1 < chunk.rows) {
          out[(2 * lane + 1) * args.HV] = args.scale * (above + x[1] + end);
        }
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = rows2[half];
        if (!kGrouped) q_sum[half] = k_sum[half] = 0.f;
        q_sum[half] += total(kDotQ, i);
        k_sum[half] += total(kDotK, i) + total(kDotKt, i);
      }
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (!kSeparateKey) dk[n][e] += dkt[n][e];
          if constexpr (kGrouped) {
            dq_sum[n][e] += dq[n][e];
            dk_sum[n][e] += dk[n][e];
          }
        }
      }
      if (kSeparateKey) {
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) dkt[n][e] *= args.scale;
        }
        write_block<K, kPairs>(
            kt, dkt, bf16(args.grad_kt) + (chunk.first * args.HV + hv) * K,
            write_stride, row0, col0, chunk.rows, lane);
      }
      if (head + 1 == heads) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int i = rows2[half];
          const float rq = vec[kVecRq * kChunk + i];
          const float rk = vec[kVecRk * kChunk + i];
          const float q_pull = args.l2_norm ? rq * rq * q_sum[half] : 0.f;
          const float k_pull = args.l2_norm ? rk * rk * k_sum[half] : 0.f;
#pragma unroll
          for (int n = 0; n < kTiles; ++n) {
            const std::uint32_t q_pair = tile_pair(q, i, col0 + 8 * n, t);
            const std::uint32_t k_pair = tile_pair(k, i, col0 + 8 * n, t);
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              float& q_out = dq[n][2 * half + e];
              float& k_out = dk[n][2 * half + e];
              if constexpr (kGrouped) {
                q_out = dq_sum[n][2 * half + e];
                k_out = dk_sum[n][2 * half + e];
              }
              q_out =
                  args.scale * (q_out - q_pull * (e == 0 ? low_bf16(q_pair)
                                                         : high_bf16(q_pair)));
              k_out =
                  args.scale * (k_out - k_pull * (e == 0 ? low_bf16(k_pair)
                                                         : high_bf16(k_pair)));
            }
          }
        }
        const std::int64_t key_at = (chunk.first * args.H + h) * K;
        write_block<K, kPairs>(q, dq, bf16(args.grad_q) + key_at, key_stride,
                               row0, col0, chunk.rows, lane);
        write_block<K, kPairs>(k, dk, bf16(args.grad_k) + key_at, key_stride,
                               row0, col0, chunk.rows, lane);
      }
    }
    if (next_item != item) {
      chunk = next_chunk;
      if (next_item + stride < items) {
        next_chunk = args.chunks[(next_item + stride) / args.H];
      }
    }
    item = next_item;
    head = next_head;
    slot = next_slot;
    buffer ^= 1;
  }
}

template <int K, bool kSeparateKey, bool kGrouped, bool kChannel>
void launch_gradients(const Args& args, Stream stream) {
  using L = Gradients<K, kSeparateKey, kChannel>;
  const std::int64_t items = args.max_chunks * args.H;
  const std::int64_t blocks = multiprocessors();
  launch("delta_rule gradients", gradients<K, kSeparateKey, kGrouped, kChannel>,
         items < blocks ? items : blocks, L::kThreads, L::kSharedBytes, stream,
         args);
}

}  // namespace osdn::kernels::delta_rule::chunk
