#pragma once
// The backward's shared memory, the warp that walks the chain of lam, and the
// finishing of a walked block; the helper's loop and the launch are in
// preconditioner_bwd.cu, whose head explains the work of the two warps.

#include "kernels/preconditioner/preconditioner_device.cuh"

namespace osdn::kernels::precond {

inline constexpr int kHalf = kBlock / 2;
/// Blocks whose keys are in shared memory: fetched, prepared, walked, finished.
inline constexpr int kRing = 4;

/// What helper and chain hand each other for a block; two take turns.
template <int Width>
struct Slot {
  TokenScalars token[kBlock];
  float2 slope[kBlock];      ///< a and what the norm adds: n' / n
  float beta_slope[kBlock];  ///< dbeta / B
  float pull[kBlock];        ///< B
  alignas(16) float d[kBlock][32 * Width];
  alignas(16) float lam[kBlock][32 * Width];  ///< after the clip's mask
};

template <typename T, int Width>
struct PairShared {
  Slot<Width> slot[2];
  float2 sums[kBlock];  ///< <lam, d> and <k, w>
  alignas(16) T k[kRing][kBlock][32 * Width];
  alignas(16) T grad[kRing][kBlock][32 * Width];
};

/// Waits for the other warp of the pair. Barrier 0 is the block's.
__device__ __forceinline__ void pair_barrier(int pair) {
  asm volatile("bar.sync %0, 64;" ::"r"(pair + 1) : "memory");
}

/// Where the gradient of the key goes: rounded at once, or one fp32 row per
/// value head for sum_groups_kernel.
struct KeyGradient {
  float* per_value_head;
  void* direct;
  const void* addend;
};

/// A pair's chain and where its rows are.
template <typename T, int Width>
struct Walk {
  const PreconditionerBwdParams& p;
  PairShared<T, Width>& shared;
  Chain chain;
  int lane, pair, channel, key_width;
  std::int64_t blocks, row_stride, out_row, out_at, token_at, d_at;

  /// Blocks are numbered as they are walked: 0 is the document's last.
  __device__ std::int64_t first_of(std::int64_t number) const {
    return (blocks - 1 - number) * kBlock;
  }
};

/// What a token brings to the chain, whatever lam is.
template <int Width>
struct ChainStep {
  float k_sq[Width], inject[Width], r, rate_beta;  ///< inject: dkt k
  bool passes[Width];                              ///< the clip let d through
};

template <typename T, int Width>
__device__ __forceinline__ ChainStep<Width> chain_step(
    const Walk<T, Width>& walk, const Slot<Width>& slot, int buffer, int row) {
  const float lo = walk.p.shape.box_lo, hi = walk.p.shape.box_hi;
  const TokenScalars token = slot.token[row];
  const float a = slot.slope[row].x;
  float key[Width], before[Width], grad_kt[Width];
  load_floats<Width>(&walk.shared.k[buffer][row][walk.channel], key);
  load_floats<Width>(&walk.shared.grad[buffer][row][walk.channel], grad_kt);
  load_floats<Width>(&slot.d[row][walk.channel], before);
  ChainStep<Width> step;
  step.r = token.r;
  step.rate_beta = token.rate_beta;
#pragma unroll
  for (int c = 0; c < Width; ++c) {
    step.k_sq[c] = squared(key[c], token.k_scale);
    step.inject[c] = grad_kt[c] * key[c];
    const float unclipped = stepped(before[c], token.r, a, step.k_sq[c]);
    step.passes[c] = unclipped >= lo && unclipped <= hi;
  }
  return step;
}

template <bool Packed, typename T, int Width>
__device__ __forceinline__ void walk_chain(const Walk<T, Width>& walk,
                                           float* d0_partial) {
  const PreconditionerBwdParams& p = walk.p;
  float lam[Width] = {};
  if (p.grad_d_T != nullptr && !p.detach) {
    load_channels<Width, Packed>(p.grad_d_T + walk.d_at, walk.channel,
                                 walk.key_width, lam);
  }
  for (std::int64_t turn = 0; uniform(turn < walk.blocks + 2); ++turn) {
    if (uniform(turn >= 1 && turn <= walk.blocks)) {
      const std::int64_t number = turn - 1;
      Slot<Width>& slot = walk.shared.slot[number % 2];
      const int buffer = static_cast<int>(number % kRing);
      // The next token is loaded before this one's stores: behind them, loads
      // from shared memory would have to wait, and with them all that could
      // run in the shadow of the shuffles.
      ChainStep<Width> next = chain_step(walk, slot, buffer, kBlock - 1);
#pragma unroll
      for (int row = kBlock - 1; row >= 0; --row) {
        const ChainStep<Width> step = next;
        if (row > 0) next = chain_step(walk, slot, buffer, row - 1);
        float carried[Width];
#pragma unroll
        for (int c = 0; c < Width; ++c) {
          lam[c] = step.passes[c] ? lam[c] : 0.0f;
          carried[c] = fmaf(step.r, lam[c], step.inject[c]);
        }
        store_floats<Width>(&slot.lam[row][walk.channel], lam);
        const float pull = lane_sum(lane_dot(lam, step.k_sq));
        if (walk.lane == 0) slot.pull[row] = pull;
        const float ds = -step.rate_beta * pull;
#pragma unroll
        for (int c = 0; c < Width; ++c) {
          lam[c] = p.detach ? 0.0f : fmaf(ds, step.k_sq[c], carried[c]);
        }
      }
    }
    pair_barrier(walk.pair);
  }
  store_channels<Width, Packed>(d0_partial + walk.d_at, walk.channel,
                                walk.key_width, lam);
}

/// Block `number`, walked: its gradients. `put` stores a row of grad_k.
template <typename T, int Width, typename Put>
__device__ __forceinline__ void finish_block(const Walk<T, Width>& walk,
                                             std::int64_t number, Put&& put) {
  const PreconditionerBwdParams& p = walk.p;
  const std::int64_t first = walk.first_of(number);
  const int rows = block_rows(walk.chain, first);
  const Slot<Width>& slot = walk.shared.slot[number % 2];
  const int buffer = static_cast<int>(number % kRing);
#pragma unroll 1
  for (int half = 0; half < kBlock; half += kHalf) {
    float grad_key[kHalf][Width], lane_parts[kBlock];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const int row = half + i;
      const TokenScalars token = slot.token[row];
      const float2 slope = slot.slope[row];
      const float pull = slot.pull[row];
      const float ds = -token.rate_beta * pull;
      const float dn = -slope.x * pull * slope.y;
      const float rk2 = token.k_scale * token.k_scale;
      float key[Width], grad_kt[Width], d[Width], lam[Width], w[Width];
      load_floats<Width>(&walk.shared.k[buffer][row][walk.channel], key);
      load_floats<Width>(&walk.shared.grad[buffer][row][walk.channel], grad_kt);
      load_floats<Width>(&slot.d[row][walk.channel], d);
      load_floats<Width>(&slot.lam[row][walk.channel], lam);
#pragma unroll
      for (int c = 0; c < Width; ++c) {
        w[c] = 2.0f * key[c] * fmaf(slope.x, lam[c], fmaf(ds, d[c], dn));
        grad_key[i][c] = fmaf(rk2, w[c], grad_kt[c] * d[c]);
      }
      lane_parts[i] = lane_dot(lam, d);
      lane_parts[kHalf + i] = lane_dot(key, w);
    }
    const float sum = block_token_sums(lane_parts, walk.lane);
    if (walk.lane % 2 == 0) {
      float2& sums_of = walk.shared.sums[half + walk.lane / 2 % kHalf];
      (walk.lane / 2 < kHalf ? sums_of.x : sums_of.y) = sum;
    }
    __syncwarp();
    std::int64_t to = walk.out_at + (first + half) * walk.out_row;
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      const int row = half + i;
      const float k_scale = slot.token[row].k_scale;
      const float rk2 = k_scale * k_scale;
      const float scale =
          p.shape.l2_norm ? -rk2 * rk2 * walk.shared.sums[row].y : 0.0f;
      float key[Width];
      load_floats<Width>(&walk.shared.k[buffer][row][walk.channel], key);
#pragma unroll
      for (int c = 0; c < Width; ++c) {
        grad_key[i][c] = fmaf(scale, key[c], grad_key[i][c]);
      }
      if (row < rows) put(to, grad_key[i]);
      to += walk.out_row;
    }
  }
  const int row = walk.lane / 2;
  if (walk.lane % 2 == 0 && row < rows) {
    const std::int64_t at = walk.token_at + (first + row) * p.shape.value_heads;
    if (p.grad_beta != nullptr) {
      p.grad_beta[at] =
          p.shape.beta_aware ? slot.pull[row] * slot.beta_slope[row] : 0.0f;
    }
    if (p.r != nullptr) p.grad_r[at] = walk.shared.sums[row].x;
  }
}

}  // namespace osdn::kernels::precond
