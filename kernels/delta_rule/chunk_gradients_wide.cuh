#pragma once
// B3 where every key head has one value head and the gate, if any, is one
// number a head: the gradients of a chunk head by three warpgroups, each with
// all 64 rows of its accumulators.
//
//   group 0: dq = query dO S + dP' kt,          dP = dO Z^T
//   group 1: dk = -b read X S + dA' kt,         dA = X Z^T
//   group 2: dkt = b write Z dS + dA'^T k + dP'^T q
//
// (chunk_gradients.cuh has the formulas.) Persistent blocks take slots of 64
// value columns through a ring of three buffers, two of which are under way
// while one is worked on. dP' and dA' pass from accumulators to left operands
// in registers and to group 2 through shared memory; the diagonal of dA is
// dbeta.

#include "kernels/common/wgmma.cuh"
#include "kernels/delta_rule/chunk_common.cuh"

namespace osdn::kernels::delta_rule::chunk {

template <int K, bool kSeparateKey>
struct WideGradients {
  static constexpr int kThreads = 384;
  static constexpr int kRing = 3;
  static constexpr int kSlot = 64;  ///< value columns of a slot
  static constexpr int kKeyBytes = kChunk * K * 2;
  static constexpr int kSlotBytes = kChunk * kSlot * 2;
  static constexpr int kStateBytes = kSlot * K * 2;
  static constexpr int kQ = 0;
  static constexpr int kK = kQ + kKeyBytes;
  static constexpr int kKt = kSeparateKey ? kK + kKeyBytes : kK;
  static constexpr int kBuffers = kKt + kKeyBytes;
  // one buffer; at the end of an item dP' and dA' replace dO and X, and dkt on
  // its way to group 1 replaces S and dS
  static constexpr int kGradO = 0;
  static constexpr int kX = kGradO + kSlotBytes;
  static constexpr int kZ = kX + kSlotBytes;
  static constexpr int kS = kZ + kSlotBytes;
  static constexpr int kDS = kS + kStateBytes;
  static constexpr int kVec = kDS + kStateBytes;
  static constexpr int kBufferBytes = kVec + kVectors * kChunk * 4;
  static constexpr int kDots = kBuffers + kRing * kBufferBytes;  ///< [3][64]
  static constexpr int kEnds = kDots + 3 * kChunk * 4;           ///< [12] warps
  static constexpr int kSharedBytes = kEnds + 64;
  static_assert(kSharedBytes <= 232448, "one block a multiprocessor");
};

/// A warp's [16, K] accumulators as bf16 over its rows of `tile`, and from
/// there to rows of `out`.
template <int K>
__device__ __forceinline__ void write_warp_rows(Tile<K> tile,
                                                const float (&values)[K / 8][4],
                                                Bf16* out, std::int64_t stride,
                                                int row0, int rows, int lane) {
#pragma unroll
  for (int p = 0; p < K / 16; ++p) {
    std::uint32_t r[4];
    pack_a(r, values[2 * p], values[2 * p + 1]);
    store_matrix(tile.unit(row0 + (lane & 15), 16 * p + (lane >> 4) * 8), r);
  }
  __syncwarp();
  constexpr int kUnits = K / 8, kRows = 32 / kUnits;
#pragma unroll
  for (int i = 0; i < 16 / kRows; ++i) {
    const int row = row0 + i * kRows + lane / kUnits;
    const int col = lane % kUnits * 8;
    if (row < rows) copy_out(out + row * stride + col, tile.unit(row, col));
  }
}

/// Row dots of a tile with accumulators, in every lane of the quad.
template <int K>
__device__ __forceinline__ void row_dots(float (&dot)[2], Tile<K> tile,
                                         const float (&values)[K / 8][4],
                                         int row0, int lane) {
  const int g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    dot[half] = 0;
#pragma unroll
    for (int n = 0; n < K / 8; ++n) {
      dot[half] += dot_pair(tile_pair(tile, row0 + g + 8 * half, 8 * n, t),
                            values[n][2 * half], values[n][2 * half + 1]);
    }
    dot[half] += __shfl_xor_sync(0xffffffffu, dot[half], 1);
    dot[half] += __shfl_xor_sync(0xffffffffu, dot[half], 2);
  }
}

/// scale (d - pull x), the gradient through the norm of row x.
template <int K>
__device__ __forceinline__ void norm_backward(float (&d)[K / 8][4],
                                              Tile<K> tile,
                                              const float (&pull)[2],
                                              float scale, int row0, int lane) {
  const int g = lane >> 2, t = lane & 3;
#pragma unroll
  for (int n = 0; n < K / 8; ++n) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t x = tile_pair(tile, row0 + g + 8 * half, 8 * n, t);
      d[n][2 * half] = scale * (d[n][2 * half] - pull[half] * low_bf16(x));
      d[n][2 * half + 1] =
          scale * (d[n][2 * half + 1] - pull[half] * high_bf16(x));
    }
  }
}

template <int kTiles>
__device__ __forceinline__ void scale_rows(float (&d)[kTiles][4], float upper,
                                           float lower) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    d[n][0] *= upper;
    d[n][1] *= upper;
    d[n][2] *= lower;
    d[n][3] *= lower;
  }
}

/// The whole work of one warpgroup.
template <int K, bool kSeparateKey, int kGroup>
__device__ __forceinline__ void run_group(const Args& args, int thread) {
  using L = WideGradients<K, kSeparateKey>;
  const int lane = thread % 32;
  const int row0 = thread / 32 % 4 * 16;  // the warp's rows
  const int g = lane >> 2, t = lane & 3;
  const int V = args.V;
  const int slots = V / L::kSlot;
  const bool gated = args.gate != DeltaRuleGate::kNone;
  unsigned char* shared = dynamic_shared();
  const Tile<K> q{reinterpret_cast<Bf16*>(shared + L::kQ)};
  const Tile<K> k{reinterpret_cast<Bf16*>(shared + L::kK)};
  const Tile<K> kt{reinterpret_cast<Bf16*>(shared + L::kKt)};
  float* dots = reinterpret_cast<float*>(shared + L::kDots);
  float* ends = reinterpret_cast<float*>(shared + L::kEnds);

  const int HV = args.HV;
  const std::int64_t key_stride = static_cast<std::int64_t>(HV) * K;
  const std::int64_t value_stride = static_cast<std::int64_t>(HV) * V;
  const std::int64_t items =
      args.first_chunk[args.N] * static_cast<std::int64_t>(HV);

  const auto load_keys = [&](std::int64_t item) {
    const ChunkInfo chunk = args.chunks[item / HV];
    const std::int64_t at = (chunk.first * HV + item % HV) * K;
    load_tile<kChunk, K, L::kThreads>(q, bf16(args.q) + at, key_stride,
                                      chunk.rows, thread);
    load_tile<kChunk, K, L::kThreads>(k, bf16(args.k) + at, key_stride,
                                      chunk.rows, thread);
    if (kSeparateKey) {
      load_tile<kChunk, K, L::kThreads>(kt, bf16(args.kt) + at, key_stride,
                                        chunk.rows, thread);
    }
  };
  const auto load_slot = [&](std::int64_t item, int slot, int buffer) {
    const ChunkInfo chunk = args.chunks[item / HV];
    unsigned char* base = shared + L::kBuffers + buffer * L::kBufferBytes;
    const int v0 = slot * L::kSlot;
    const auto tile = [&](int at) {
      return Tile<L::kSlot>{reinterpret_cast<Bf16*>(base + at)};
    };
    const auto state = [&](int at) {
      return Tile<K>{reinterpret_cast<Bf16*>(base + at)};
    };
    const std::int64_t value_at = item * kChunk * V + v0;
    const std::int64_t state_at = (item * V + v0) * K;
    load_tile<kChunk, L::kSlot, L::kThreads>(
        tile(L::kGradO),
        bf16(args.grad_o) + (chunk.first * HV + item % HV) * V + v0,
        value_stride, chunk.rows, thread);
    load_tile<kChunk, L::kSlot, L::kThreads>(
        tile(L::kX), bf16(args.X) + value_at, V, kChunk, thread);
    load_tile<kChunk, L::kSlot, L::kThreads>(
        tile(L::kZ), bf16(args.Z) + value_at, V, kChunk, thread);
    load_tile<L::kSlot, K, L::kThreads>(state(L::kS), bf16(args.S) + state_at,
                                        K, kChunk, thread);
    load_tile<L::kSlot, K, L::kThreads>(state(L::kDS), bf16(args.dS) + state_at,
                                        K, kChunk, thread);
    load_floats_async<kVectors * kChunk>(
        reinterpret_cast<float*>(base + L::kVec),
        args.vectors + item * kVectors * kChunk, thread);
  };

  // The slot that is loaded next, two ahead of the one that is worked on.
  std::int64_t load_item = blockIdx.x;
  int load_at = 0, load_buffer = 0;
  const auto load_next = [&] {
    if (load_item < items) load_slot(load_item, load_at, load_buffer);
    copy_async_commit();
    load_buffer = load_buffer + 1 == L::kRing ? 0 : load_buffer + 1;
    if (++load_at == slots) {
      load_at = 0;
      load_item += gridDim.x;
    }
  };
  load_next();
  load_next();

  int buffer = 0;
  for (std::int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const ChunkInfo chunk = args.chunks[item / HV];
    const int hv = static_cast<int>(item % HV);
    float main[K / 8][4];  // dq, dk or dkt by group
    float pair[8][4];      // dP or dA of groups 0 and 1
    float state_dot = 0;
    unsigned char* base = nullptr;
    for (int slot = 0; slot < slots; ++slot) {
      copy_async_wait<1>();
      fence_shared_for_wgmma();
      block_barrier<L::kThreads>();
      if (slot == 0) {
        load_keys(item);
        copy_async_commit();
      }
      load_next();
      base = shared + L::kBuffers + buffer * L::kBufferBytes;
      buffer = buffer + 1 == L::kRing ? 0 : buffer + 1;
      const Tile<L::kSlot> left{
          reinterpret_cast<Bf16*>(base + (kGroup == 0   ? L::kGradO
                                          : kGroup == 1 ? L::kX
                                                        : L::kZ))};
      const Tile<L::kSlot> Z{reinterpret_cast<Bf16*>(base + L::kZ)};
      const Tile<K> S{reinterpret_cast<Bf16*>(base + L::kS)};
      const Tile<K> dS{reinterpret_cast<Bf16*>(base + L::kDS)};
      const Tile<K> right = kGroup == 2 ? dS : S;
      std::uint32_t a[4][4];
#pragma unroll
      for (int s = 0; s < 4; ++s) load_a(a[s], left, row0, 16 * s, lane);
      if (slot == 0) {
#pragma unroll
        for (int n = 0; n < K / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) main[n][e] = 0.f;
        }
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) pair[n][e] = 0.f;
        }
      }
      pin(main);
      pin(pair);
      wgmma_fence();
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        wgmma<true, true>(main, a[s], columns_of(right, 16 * s));
      }
      if constexpr (kGroup < 2) {
#pragma unroll
        for (int s = 0; s < 4; ++s) {
          wgmma<false, true>(pair, a[s], rows_of(Z, 16 * s));
        }
      }
      wgmma_commit();
      if constexpr (kGroup == 1) {  // dv = K^-1/2 b X, the warp's own rows
        const float* beta =
            reinterpret_cast<const float*>(base + L::kVec) + kVecBeta * kChunk;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = row0 + 4 * i + lane / 8, col = lane % 8 * 8;
          const uint4 x = *reinterpret_cast<const uint4*>(left.unit(row, col));
          const float f = args.scale * beta[row];
          const std::uint32_t in[4] = {x.x, x.y, x.z, x.w};
          std::uint32_t out[4];
#pragma unroll
          for (int w = 0; w < 4; ++w) {
            out[w] = pack_bf16(f * low_bf16(in[w]), f * high_bf16(in[w]));
          }
          if (row < chunk.rows) {
            *reinterpret_cast<uint4*>(
                bf16(args.grad_v) + (chunk.first * HV + hv) * V +
                row * value_stride + slot * L::kSlot + col) =
                uint4{out[0], out[1], out[2], out[3]};
          }
        }
      }
      if (gated) {
        constexpr int kUnits = 64 * K / 8;
#pragma unroll
        for (int i = 0; i < (kUnits + L::kThreads - 1) / L::kThreads; ++i) {
          const int at = i * L::kThreads + thread;
          if (at < kUnits) {
            const int row = at / (K / 8), col = at % (K / 8) * 8;
            const uint4 x = *reinterpret_cast<const uint4*>(S.unit(row, col));
            const uint4 y = *reinterpret_cast<const uint4*>(dS.unit(row, col));
            state_dot += dot_pair(x.x, y.x) + dot_pair(x.y, y.y) +
                         dot_pair(x.z, y.z) + dot_pair(x.w, y.w);
          }
        }
      }
      wgmma_wait<0>();
      pin(main);
      pin(pair);
    }

    const float* vec = reinterpret_cast<const float*>(base + L::kVec);
    const float* beta = vec + kVecBeta * kChunk;
    const float* rk = vec + kVecRk * kChunk;
    const float* rq = vec + kVecRq * kChunk;
    const Tile<kChunk> dP{reinterpret_cast<Bf16*>(base + L::kGradO)};
    const Tile<kChunk> dA{reinterpret_cast<Bf16*>(base + L::kX)};
    float* exchange = reinterpret_cast<float*>(base + L::kS);  // [K/2][128]
    const int upper = row0 + g, lower = upper + 8;
    std::uint32_t pair_a[4][4];
    if constexpr (kGroup == 0) {
      scale_rows(main, vec[kVecQuery * kChunk + upper],
                 vec[kVecQuery * kChunk + lower]);
    } else if constexpr (kGroup == 1) {
      scale_rows(main, -beta[upper] * vec[kVecRead * kChunk + upper],
                 -beta[lower] * vec[kVecRead * kChunk + lower]);
    } else {
      scale_rows(main, beta[upper] * vec[kVecWrite * kChunk + upper],
                 beta[lower] * vec[kVecWrite * kChunk + lower]);
    }
    if constexpr (kGroup < 2) {
      const float* G = vec + kVecG * kChunk;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = half == 0 ? upper : lower;
        const float row_scale = kGroup == 0 ? rq[i] : -beta[i] * rk[i];
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int j = 8 * n + 2 * t + e;
            float& x = pair[n][2 * half + e];
            if (kGroup == 1 && j == i && i < chunk.rows) {
              args.grad_beta[(chunk.first + i) * HV + hv] = args.scale * x;
            }
            const bool inside = kGroup == 0 ? j <= i : j < i;
            x = inside ? x * row_scale * beta[j] * rk[j] *
                             exp2_nonpositive(fminf(G[i] - G[j], 0.f))
                       : 0.f;
          }
        }
      }
      const Tile<kChunk> to = kGroup == 0 ? dP : dA;
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        pack_a(pair_a[s], pair[2 * s], pair[2 * s + 1]);
        store_matrix(to.unit(row0 + (lane & 15), 16 * s + (lane >> 4) * 8),
                     pair_a[s]);
      }
    }
    if (slots > 1) {  // the keys came before the two newest slots
      copy_async_wait<2>();
    } else {
      copy_async_wait<1>();
    }
    fence_shared_for_wgmma();
    block_barrier<L::kThreads>();  // keys, dP' and dA' are there

    float end = gated ? vec[kVecDecay * kChunk] * state_dot : 0.f;
    if constexpr (kGroup < 2) {
      pin(main);
      wgmma_fence();
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        wgmma<true, true>(main, pair_a[s], columns_of(kt, 16 * s));
      }
      wgmma_commit();
    } else {
      if (gated) {
        float dot[2];
        row_dots(dot, kt, main, row0, lane);
        if (t == 0) end += dot[0] + dot[1];
      }
      std::uint32_t p_a[4][4];
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        load_a_transposed(pair_a[s], dA, 16 * s, row0, lane);
        load_a_transposed(p_a[s], dP, 16 * s, row0, lane);
      }
      pin(main);
      wgmma_fence();
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        wgmma<true, true>(main, pair_a[s], columns_of(k, 16 * s));
        wgmma<true, true>(main, p_a[s], columns_of(q, 16 * s));
      }
      wgmma_commit();
    }
    if (gated) {
      end = warp_sum(end);
      if (lane == 0) ends[thread / 32] = end;
    }
    wgmma_wait<0>();
    pin(main);

    float dot[2];
    row_dots(dot, kGroup == 0 ? q : kGroup == 1 ? k : kt, main, row0, lane);
    if (t == 0) {
      dots[kGroup * kChunk + upper] = dot[0];
      dots[kGroup * kChunk + lower] = dot[1];
    }
    if constexpr (!kSeparateKey && kGroup == 2) {
#pragma unroll
      for (int n = 0; n < K / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          exchange[(4 * n + e) * 128 + thread % 128] = main[n][e];
        }
      }
    }
    block_barrier<L::kThreads>();

    const std::int64_t key_at = (chunk.first * HV + hv) * K;
    if constexpr (kGroup == 0) {
      const float pull[2] = {
          args.l2_norm ? rq[upper] * rq[upper] * dot[0] : 0.f,
          args.l2_norm ? rq[lower] * rq[lower] * dot[1] : 0.f};
      norm_backward(main, q, pull, args.scale, row0, lane);
      __syncwarp();
      write_warp_rows(q, main, bf16(args.grad_q) + key_at, key_stride, row0,
                      chunk.rows, lane);
    } else if constexpr (kGroup == 1) {
      const float* write_dots = dots + 2 * kChunk;
      const float pull[2] = {
          args.l2_norm ? rk[upper] * rk[upper] * (dot[0] + write_dots[upper])
                       : 0.f,
          args.l2_norm ? rk[lower] * rk[lower] * (dot[1] + write_dots[lower])
                       : 0.f};
      if (!kSeparateKey) {
#pragma unroll
        for (int n = 0; n < K / 8; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            main[n][e] += exchange[(4 * n + e) * 128 + thread % 128];
          }
        }
      }
      norm_backward(main, k, pull, args.scale, row0, lane);
      __syncwarp();
      write_warp_rows(k, main, bf16(args.grad_k) + key_at, key_stride, row0,
                      chunk.rows, lane);
    } else {
      if (kSeparateKey) {
        scale_rows(main, args.scale, args.scale);
        write_warp_rows(kt, main, bf16(args.grad_kt) + key_at, key_stride, row0,
                        chunk.rows, lane);
      }
      if (gated && row0 == 0) {
        // dg: sum of dG from each token to the chunk's end, two a lane; the
        // last token's dG also holds the decay of the state.
        float x[2], tail = 0;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int i = 2 * lane + e;
          x[e] = dots[i] + dots[kChunk + i] - dots[2 * kChunk + i];
        }
#pragma unroll
        for (int w = 0; w < 12; ++w) tail += ends[w];
        float sum = x[0] + x[1];
#pragma unroll
        for (int step = 1; step < 32; step *= 2) {
          const float later = __shfl_down_sync(0xffffffffu, sum, step);
          if (lane + step < 32) sum += later;
        }
        float above = __shfl_down_sync(0xffffffffu, sum, 1);
        if (lane == 31) above = 0.f;
        float* out = args.grad_g + chunk.first * HV + hv;
        if (2 * lane < chunk.rows) {
          out[2 * lane * HV] = args.scale * (sum + tail);
        }
        if (2 * lane + 1 < chunk.rows) {
          out[(2 * lane + 1) * HV] = args.scale * (above + x[1] + tail);
        }
      }
    }
  }
}

template <int K, bool kSeparateKey>
__global__ void __launch_bounds__(384, 1) wide_gradients(const Args args) {
  const int thread = static_cast<int>(threadIdx.x);
  // The same in a whole warp, and known to be so.
  const int group = __shfl_sync(0xffffffffu, thread / 128, 0);
  if (group == 0) {
    run_group<K, kSeparateKey, 0>(args, thread);
  } else if (group == 1) {
    run_group<K, kSeparateKey, 1>(args, thread);
  } else {
    run_group<K, kSeparateKey, 2>(args, thread);
  }
}

template <int K, bool kSeparateKey>
void launch_wide_gradients(const Args& args, Stream stream) {
  using L = WideGradients<K, kSeparateKey>;
  const std::int64_t items = args.max_chunks * args.HV;
  const std::int64_t blocks = multiprocessors();
  launch("delta_rule wide_gradients", wide_gradients<K, kSeparateKey>,
         items < blocks ? items : blocks, L::kThreads, L::kSharedBytes, stream,
         args);
}

}  // namespace osdn::kernels::delta_rule::chunk
