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
//
// K = 256: the keys are taken in two parts of 128 channels, each with all its
// slots, under the same dP' and dA'. The gradient through the norm and dG need
// row dots over both parts, so the first part's dq and dk wait in fp32
// (Parked); value heads of a key head add there as well.

#include "kernels/delta_rule/chunk_gradients_channel.cuh"
#include "kernels/delta_rule/chunk_gradients_device.cuh"

namespace osdn::kernels::delta_rule::chunk {

template <int K, bool kSeparateKey, bool kGrouped, bool kChannel>
__global__ void __launch_bounds__(512, 1) gradients(const Args args) {
  using L = Gradients<K, kSeparateKey, kChannel>;
  constexpr int kWidth = L::kWidth;
  constexpr bool kInParts = L::kParts > 1;
  static_assert(!(kGrouped && kInParts));
  constexpr int kPairs = kWidth / 64;  // 16-column pairs of a column group
  constexpr int kTiles = 2 * kPairs;
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32, lane = thread % 32;
  const int row_group = warp / 4, column_group = warp % 4;
  const SlotOffsets<kWidth> all_offsets(row_group, column_group, lane);
  const int V = args.V;
  const int slots = V / L::kSlot;
  const int heads = kGrouped || kInParts ? args.HV / args.H : 1;
  const bool gated = args.gate == DeltaRuleGate::kPerHead;
  unsigned char* shared = dynamic_shared();
  const Tile<kWidth> q{reinterpret_cast<Bf16*>(shared + L::kQ)};
  const Tile<kWidth> k{reinterpret_cast<Bf16*>(shared + L::kK)};
  const Tile<kWidth> kt{reinterpret_cast<Bf16*>(shared + L::kKt)};
  const Decays<kWidth> G{reinterpret_cast<float*>(shared + L::kG)};
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

  const auto load_keys = [&](int h, int head, int part, ChunkInfo chunk) {
    const int channel = part * kWidth;
    const std::int64_t key_at = (chunk.first * args.H + h) * K + channel;
    const std::int64_t write_at =
        (chunk.first * args.HV + h * heads + head) * K + channel;
    load_tile<kChunk, kWidth, L::kThreads>(q, bf16(args.q) + key_at, key_stride,
                                           chunk.rows, thread);
    load_tile<kChunk, kWidth, L::kThreads>(k, bf16(args.k) + key_at, key_stride,
                                           chunk.rows, thread);
    if (kSeparateKey) {
      load_tile<kChunk, kWidth, L::kThreads>(kt, bf16(args.kt) + write_at,
                                             write_stride, chunk.rows, thread);
    }
    if constexpr (kChannel) {
      load_decays<kWidth, L::kThreads>(G, args.g + write_at, write_stride,
                                       chunk.rows, thread);
    }
  };
  const auto load_slot = [&](int item, int head, int part, int slot, int buffer,
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
    const std::int64_t state_at = (chunk_head * V + v0) * K + part * kWidth;
    load_tile<L::kSlot, kWidth, L::kThreads>(
        {reinterpret_cast<Bf16*>(base + L::kS)}, bf16(args.S) + state_at, K,
        L::kSlot, thread);
    load_tile<L::kSlot, kWidth, L::kThreads>(
        {reinterpret_cast<Bf16*>(base + L::kDS)}, bf16(args.dS) + state_at, K,
        L::kSlot, thread);
    load_floats_async<kVectors * kChunk>(
        reinterpret_cast<float*>(base + L::kVec),
        args.vectors + chunk_head * kVectors * kChunk, thread);
  };

  // Chunks are read one item early: a block must not wait for them.
  int item = static_cast<int>(blockIdx.x);
  int head = 0, part = 0, slot = 0, buffer = 0;
  ChunkInfo chunk{0, 0, 0}, next_chunk{0, 0, 0};
  if (item < items) {
    chunk = args.chunks[item / args.H];
    load_slot(item, 0, 0, 0, 0, chunk);
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
      load_keys(item % args.H, head, part, chunk);
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
      if ((kGrouped || kInParts) && head == 0 && part == 0) {
        q_sum[0] = q_sum[1] = k_sum[0] = k_sum[1] = 0.f;
      }
    }
    // What comes after this slot.
    int next_item = item, next_head = head, next_part = part;
    int next_slot = slot + 1;
    if (next_slot == slots) {
      next_slot = 0;
      if (++next_part == L::kParts) {
        next_part = 0;
        if (++next_head == heads) {
          next_head = 0;
          next_item += stride;
        }
      }
    }
    if (next_item < items) {
      load_slot(next_item, next_head, next_part, next_slot, buffer ^ 1,
                next_item == item ? chunk : next_chunk);
    }
    copy_async_commit();

    const int h = item % args.H;
    const int hv = h * heads + head;
    unsigned char* base = shared + L::kBuffers + buffer * L::kBufferBytes;
    const Tile<L::kSlot> grad_o{reinterpret_cast<Bf16*>(base + L::kGradO)};
    const Tile<L::kSlot> X{reinterpret_cast<Bf16*>(base + L::kX)};
    const Tile<L::kSlot> Z{reinterpret_cast<Bf16*>(base + L::kZ)};
    const Tile<kWidth> S{reinterpret_cast<Bf16*>(base + L::kS)};
    const Tile<kWidth> dS{reinterpret_cast<Bf16*>(base + L::kDS)};
    const float* vec = reinterpret_cast<const float*>(base + L::kVec);
    const float* beta = vec + kVecBeta * kChunk;

    if (part == 0) {
      write_dv(bf16(args.grad_v) + (chunk.first * args.HV + hv) * V +
                   slot * L::kSlot,
               value_stride, chunk.rows, X, beta, args.scale, thread);
    }
    if constexpr (kChannel) {
      add_channel_state_dots(state_dots, S, dS, slot == 0, thread);
    }
    if (gated) state_dot += state_dot_part(S, dS, thread);
    const SlotOffsets<kWidth> offsets = all_offsets.here();
    // Rolled where registers are short.
#pragma unroll(kChannel ? 1 : 4)
    for (int s = 0; s < L::kSlot / 16; ++s) {
      std::uint32_t o_a[4], x_a[4], z_a[4], b[4];
      load_matrix(o_a, grad_o.data + offsets.a(s));
      load_matrix(x_a, X.data + offsets.a(s));
      load_matrix(z_a, Z.data + offsets.a(s));
      if (s == column_group) {
        dbeta[0] += dot_pair(x_a[0], z_a[0]) + dot_pair(x_a[2], z_a[2]);
        dbeta[1] += dot_pair(x_a[1], z_a[1]) + dot_pair(x_a[3], z_a[3]);
      }
      if (column_group <= row_group) {
        load_matrix(b, Z.data + offsets.b(s));
        mma_bf16(dp[0], o_a, b[0], b[1]);
        mma_bf16(dp[1], o_a, b[2], b[3]);
        mma_bf16(da[0], x_a, b[0], b[1]);
        mma_bf16(da[1], x_a, b[2], b[3]);
      }
#pragma unroll
      for (int p = 0; p < kPairs; ++p) {
        load_matrix_transposed(b, S.data + offsets.state(s, p));
        mma_bf16(dq[2 * p], o_a, b[0], b[1]);
        mma_bf16(dq[2 * p + 1], o_a, b[2], b[3]);
        mma_bf16(dk[2 * p], x_a, b[0], b[1]);
        mma_bf16(dk[2 * p + 1], x_a, b[2], b[3]);
        load_matrix_transposed(b, dS.data + offsets.state(s, p));
        mma_bf16(dkt[2 * p], z_a, b[0], b[1]);
        mma_bf16(dkt[2 * p + 1], z_a, b[2], b[3]);
      }
    }

    if (slot + 1 == slots) {
      // Addresses that are formed here do not fill registers during the slots;
      // without the pressure of a gate per channel that costs more than it
      // gives.
      const int thread = kChannel ? opaque(static_cast<int>(threadIdx.x))
                                  : static_cast<int>(threadIdx.x);
      const int warp = thread / 32, lane = thread % 32;
      const int g = lane >> 2, t = lane & 3;
      const int row_group = warp / 4, column_group = warp % 4;
      const int row0 = 16 * row_group, col0 = 16 * kPairs * column_group;
      // Scratch in this slot's buffer, once everybody is done with it.
      using Scratch = ChannelScratch<kWidth>;
      float* channel_ends =
          reinterpret_cast<float*>(base + L::kGradO + Scratch::kToEnd);
      float* segments =
          reinterpret_cast<float*>(base + L::kGradO + Scratch::kSegments);
      float* dG = reinterpret_cast<float*>(base + L::kS);  // [64][channel]
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
        if (lane == 0) ends[warp] = part == 0 ? to_end : ends[warp] + to_end;
      }
      if constexpr (kChannel) {
        accumulate_decays(G, thread);
      }
      __syncthreads();
      if constexpr (kChannel) {
        float2 end[kTiles];
        channel_products<kWidth, kPairs>(dq, dk, dkt, end, q, k, kt, dA, dP, G,
                                         row_group, col0, lane);
        put_channel_terms<kWidth, kPairs>(dG, channel_ends, dq, dk, dkt, end, q,
                                          k, kt, row_group, col0, lane);
      } else {
        pair_products<kWidth, kPairs>(dq, dk, dkt, q, k, kt, dA, dP, row_group,
                                      col0, lane);
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
          float* sum = dots + (d * 4 + column_group) * kChunk + i;
          // <X, Z> knows no keys.
          if (t == 0 && (part == 0 || d != kDotBeta)) {
            *sum = part == 0 ? dot[d] : *sum + dot[d];
          }
        }
      }
      __syncthreads();
      const bool last_part = part + 1 == L::kParts;
      if (last_part && thread < chunk.rows) {
        args.grad_beta[(chunk.first + thread) * args.HV + hv] =
            args.scale * row_dot(dots, kDotBeta, thread);
      }
      if constexpr (kChannel) {
        write_channel_gate<kWidth>(
            args.grad_g + (chunk.first * args.HV + hv) * K + part * kWidth,
            write_stride, chunk.rows, args.scale, dG, state_dots, channel_ends,
            segments,
            exp2_nonpositive(fminf(*G.at(kChunk - 1, thread % kWidth), 0.f)),
            thread);
      }
      if (gated && last_part && warp == 15) {
        write_head_gate(args.grad_g + chunk.first * args.HV + hv, args.HV,
                        chunk.rows, args.scale, dots, ends, lane);
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = rows2[half];
        if (!kGrouped && !kInParts) q_sum[half] = k_sum[half] = 0.f;
        if (last_part) {
          q_sum[half] += row_dot(dots, kDotQ, i);
          k_sum[half] += row_dot(dots, kDotK, i) + row_dot(dots, kDotKt, i);
        }
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
        write_block<kWidth, kPairs>(kt, dkt,
                                    bf16(args.grad_kt) +
                                        (chunk.first * args.HV + hv) * K +
                                        part * kWidth,
                                    write_stride, row0, col0, chunk.rows, lane);
      }
      const std::int64_t key_at = (chunk.first * args.H + h) * K;
      // Takes the parts along q and k out, scales and writes one part of dq,
      // dk; pair(which, i, n) gives q or k at row i, columns of accumulator
      // tile n.
      const auto finish = [&](int channel, const auto& pair) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int i = rows2[half];
          const float rq = vec[kVecRq * kChunk + i];
          const float rk = vec[kVecRk * kChunk + i];
          const float q_pull = args.l2_norm ? rq * rq * q_sum[half] : 0.f;
          const float k_pull = args.l2_norm ? rk * rk * k_sum[half] : 0.f;
#pragma unroll
          for (int n = 0; n < kTiles; ++n) {
            const std::uint32_t q_pair = pair(0, i, n);
            const std::uint32_t k_pair = pair(1, i, n);
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
        write_block<kWidth, kPairs>(q, dq, bf16(args.grad_q) + key_at + channel,
                                    key_stride, row0, col0, chunk.rows, lane);
        write_block<kWidth, kPairs>(k, dk, bf16(args.grad_k) + key_at + channel,
                                    key_stride, row0, col0, chunk.rows, lane);
      };
      const bool last_head = head + 1 == heads;
      if constexpr (kInParts) {
        const Parked<K, kTiles> parked(args.parked, thread);
        if (head > 0) {
          parked.add(part, 0, dq);
          parked.add(part, 1, dk);
        }
        if (!last_head || !last_part) {
          parked.put(part, 0, dq);
          parked.put(part, 1, dk);
        }
      }
      if (last_head && last_part) {
        finish(part * kWidth, [&](int which, int i, int n) {
          return tile_pair(which == 0 ? q : k, i, col0 + 8 * n, t);
        });
        if constexpr (kInParts) {
          const Parked<K, kTiles> parked(args.parked, thread);
          for (int p = 0; p < part; ++p) {
            parked.get(p, 0, dq);
            parked.get(p, 1, dk);
            finish(p * kWidth, [&](int which, int i, int n) {
              // Shared memory holds the last part of q and k.
              const Bf16* from = bf16(which == 0 ? args.q : args.k) + key_at +
                                 p * kWidth + i * key_stride + col0 + 8 * n +
                                 2 * t;
              return i < chunk.rows
                         ? *reinterpret_cast<const std::uint32_t*>(from)
                         : 0u;
            });
          }
        }
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
    part = next_part;
    slot = next_slot;
    buffer ^= 1;
  }
}

template <int K, bool kSeparateKey, bool kGrouped, bool kChannel>
void launch_gradients(const Args& args, Stream stream) {
  using L = Gradients<K, kSeparateKey, kChannel>;
  launch("delta_rule gradients", gradients<K, kSeparateKey, kGrouped, kChannel>,
         gradient_blocks(args.max_chunks * args.H), L::kThreads,
         L::kSharedBytes, stream, args);
}

}  // namespace osdn::kernels::delta_rule::chunk
