// Backward of the preconditioner, last token first, in blocks of 16:
//
//   lam  <- lam where the clip passed, else 0;   B = <lam, k2>
//   ds    = -eta beta^2 B / n;                   dn = -a B / n * n'
//   w     = 2 k (a lam + ds d + dn)
//   dk    = dkt d + k_scale^2 (w - k_scale^2 <k, w> k)
//   dbeta = eta (1 - 2 beta s) B / n;            dr = <lam, d>
//   lam  <- r lam + ds k2 + dkt k
//
// Two warps a (document, value head). One walks the chain of lam, with one sum
// over the warp a token, and leaves lam and B. Its helper works a block ahead
// and a block behind: copies, norms and d again from the checkpoint and the
// saved s before; w, the gradients and their sums after.

#include <type_traits>

#include "kernels/common/column_sum.cuh"
#include "kernels/common/launch_check.cuh"
#include "kernels/preconditioner/preconditioner_bwd_device.cuh"

namespace osdn::kernels {
namespace {

using namespace precond;

template <bool Packed, typename T, int Width>
__device__ __forceinline__ void walk_helper(const Walk<T, Width>& walk,
                                            const T* k, const T* grad,
                                            const KeyGradient& out) {
  const PreconditionerBwdParams& p = walk.p;
  const PreconditionerShape& shape = p.shape;
  const std::int64_t heads = shape.value_heads;
  const int channel = walk.channel, key_width = walk.key_width;
  const float lo = shape.box_lo, hi = shape.box_hi;

  // Two lanes fetch the scalars of one token.
  float beta_next = 0.0f, r_next = 1.0f, s_next = 0.0f, d_next[Width];
  const auto fetch = [&](std::int64_t number) {
    const std::int64_t first = walk.first_of(number);
    const int rows = block_rows(walk.chain, first);
    const int buffer = static_cast<int>(number % kRing);
    stage_rows<T, Width, Packed>(&walk.shared.k[buffer][0][channel],
                                 k + first * walk.row_stride, walk.row_stride,
                                 rows, channel, key_width);
    stage_rows<T, Width, Packed>(&walk.shared.grad[buffer][0][channel],
                                 grad + first * walk.out_row, walk.out_row,
                                 rows, channel, key_width);
    beta_next = s_next = 0.0f;
    r_next = 1.0f;
    if (walk.lane / 2 < rows) {
      const std::int64_t at = walk.token_at + (first + walk.lane / 2) * heads;
      if (shape.beta_aware) beta_next = p.beta[at];
      if (p.r != nullptr) r_next = p.r[at];
      s_next = p.s[at];
    }
    load_channels<Width, Packed>(
        p.d_checkpoint +
            ((checkpoint_row(walk.chain) + first / kBlock) * heads +
             walk.chain.value_head) *
                key_width,
        channel, key_width, d_next);
    copy_commit();
  };

  const auto prepare = [&](std::int64_t number) {
    Slot<Width>& slot = walk.shared.slot[number % 2];
    const int buffer = static_cast<int>(number % kRing);
    copy_wait_all();
    const float beta = beta_next, r = r_next, s = s_next;
    float d[Width];
#pragma unroll
    for (int i = 0; i < Width; ++i) d[i] = d_next[i];
    if (uniform(number + 1 < walk.blocks)) fetch(number + 1);

    float squares[kBlock];
#pragma unroll
    for (int row = 0; row < kBlock; ++row) {
      float key[Width];
      load_floats<Width>(&walk.shared.k[buffer][row][channel], key);
      squares[row] = lane_dot(key, key);
    }
    const float sum_squares = block_token_sums(squares, walk.lane);
    float inverse_n = 0.0f, energy_slope = 0.0f;
    const TokenScalars mine =
        token_scalars(shape, sum_squares, beta, r, &inverse_n, &energy_slope);
    __syncwarp();
    if (walk.lane % 2 == 0) {
      const int row = walk.lane / 2;
      slot.token[row] = mine;
      slot.slope[row] =
          make_float2(step_size(mine.rate, mine.rate_beta, s), energy_slope);
      slot.beta_slope[row] =
          shape.eta * inverse_n * fmaf(-2.0f * beta, s, 1.0f);
    }
    __syncwarp();
    // d again, eight tokens at a time; loads before stores, as in the chain.
#pragma unroll 1
    for (int half = 0; half < kBlock; half += kHalf) {
      float k_sq[kHalf][Width], r_of[kHalf], a_of[kHalf];
#pragma unroll
      for (int i = 0; i < kHalf; ++i) {
        const TokenScalars token = slot.token[half + i];
        float key[Width];
        load_floats<Width>(&walk.shared.k[buffer][half + i][channel], key);
        r_of[i] = token.r;
        a_of[i] = slot.slope[half + i].x;
#pragma unroll
        for (int c = 0; c < Width; ++c) {
          k_sq[i][c] = squared(key[c], token.k_scale);
        }
      }
#pragma unroll
      for (int i = 0; i < kHalf; ++i) {
        store_floats<Width>(&slot.d[half + i][channel], d);
#pragma unroll
        for (int c = 0; c < Width; ++c) {
          d[c] = clip(stepped(d[c], r_of[i], a_of[i], k_sq[i][c]), lo, hi);
        }
      }
    }
  };

  const auto finish = [&](std::int64_t number) {
    if (out.per_value_head != nullptr) {
      finish_block(walk, number, [&](std::int64_t to, float(&row)[Width]) {
        store_channels<Width, Packed>(out.per_value_head + to, channel,
                                      key_width, row);
      });
    } else if (out.addend != nullptr) {
      finish_block(walk, number, [&](std::int64_t to, float(&row)[Width]) {
        float other[Width];
        load_channels<Width, Packed>(static_cast<const T*>(out.addend) + to,
                                     channel, key_width, other);
#pragma unroll
        for (int i = 0; i < Width; ++i) row[i] += other[i];
        store_channels<Width, Packed>(static_cast<T*>(out.direct) + to, channel,
                                      key_width, row);
      });
    } else {
      finish_block(walk, number, [&](std::int64_t to, float(&row)[Width]) {
        store_channels<Width, Packed>(static_cast<T*>(out.direct) + to, channel,
                                      key_width, row);
      });
    }
  };

  if (uniform(walk.blocks > 0)) fetch(0);
  for (std::int64_t turn = 0; uniform(turn < walk.blocks + 2); ++turn) {
    if (uniform(turn >= 2)) finish(turn - 2);
    if (uniform(turn < walk.blocks)) prepare(turn);
    pair_barrier(walk.pair);
  }
}

template <typename T, int Width, bool Packed>
__global__ void __launch_bounds__(kMaxWarps * 64, 1)
    preconditioner_bwd_kernel(const PreconditionerBwdParams p,
                              std::int64_t row_stride, float* d0_partial,
                              const KeyGradient out) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  const PreconditionerShape& shape = p.shape;
  const int pairs = static_cast<int>(blockDim.x / 64);
  const int warp = static_cast<int>(threadIdx.x / 32);
  // Chain and helper of a pair share a scheduler where there are four pairs.
  const int pair = warp % pairs;
  const std::int64_t index =
      static_cast<std::int64_t>(blockIdx.x) * pairs + pair;
  if (uniform(index >= shape.documents * shape.value_heads)) return;
  const Chain chain = chain_at(index, shape, p.cu_seqlens);
  const std::int64_t heads = shape.value_heads, key_width = shape.key_width;
  const std::int64_t out_row = heads * key_width;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const Walk<T, Width> walk = {
      p,
      reinterpret_cast<PairShared<T, Width>*>(shared_bytes)[pair],
      chain,
      lane,
      pair,
      lane * Width,
      static_cast<int>(key_width),
      (chain.length + kBlock - 1) / kBlock,
      row_stride,
      out_row,
      chain.begin * out_row + chain.value_head * key_width,
      chain.begin * heads + chain.value_head,
      (chain.document * heads + chain.value_head) * key_width};
  if (uniform(warp < pairs)) {
    walk_chain<Packed>(walk, d0_partial);
  } else {
    walk_helper<Packed>(
        walk,
        static_cast<const T*>(p.k) + chain.begin * row_stride +
            chain.value_head / (heads / shape.key_heads) * key_width,
        static_cast<const T*>(p.grad_k_write) + walk.out_at, out);
  }
}

/// grad_k[t,h] = addend + sum over the value heads of a group, in fp32.
template <typename T>
__global__ void sum_groups_kernel(const float* per_value_head, const T* addend,
                                  T* grad_k, std::int64_t elements,
                                  std::int64_t key_width, std::int64_t group) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t e =
           static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       e < elements; e += step) {
    const std::int64_t head = e / key_width, c = e % key_width;
    float sum = addend == nullptr ? 0.0f : to_float(addend[e]);
    for (std::int64_t j = 0; j < group; ++j) {
      sum += per_value_head[(head * group + j) * key_width + c];
    }
    grad_k[e] = from_float<T>(sum);
  }
}

std::int64_t rounded_up(std::int64_t bytes) {
  return (bytes + 255) / 256 * 256;
}

std::int64_t d0_partial_bytes(const PreconditionerShape& shape) {
  return shape.d0_per_document
             ? 0
             : rounded_up(shape.documents * shape.value_heads *
                          shape.key_width * 4);
}

std::int64_t group_partial_bytes(const PreconditionerShape& shape) {
  return shape.value_heads == shape.key_heads
             ? 0
             : rounded_up(shape.tokens * shape.value_heads * shape.key_width *
                          4);
}

template <typename T>
void launch(const PreconditionerBwdParams& p, Stream stream) {
  const PreconditionerShape& shape = p.shape;
  char* workspace = static_cast<char*>(p.workspace);
  float* d0_partial =
      shape.d0_per_document ? p.grad_d0 : reinterpret_cast<float*>(workspace);
  KeyGradient out{nullptr, p.grad_k, p.grad_k_addend};
  if (group_partial_bytes(shape) > 0) {
    out.per_value_head =
        reinterpret_cast<float*>(workspace + d0_partial_bytes(shape));
  }
  const std::int64_t stride = k_row_stride(shape);
  const std::uintptr_t pack = lane_pack_bytes(shape.key_width, sizeof(T));
  const bool packs_fit =
      is_aligned(p.k, pack) && is_aligned(p.grad_k_write, pack) &&
      is_aligned(p.grad_k, pack) && is_aligned(p.grad_k_addend, pack) &&
      stride * static_cast<std::int64_t>(sizeof(T)) %
              static_cast<std::int64_t>(pack) ==
          0 &&
      is_aligned(p.d_checkpoint, 16) && is_aligned(p.grad_d_T, 16) &&
      is_aligned(d0_partial, 16);
  with_lane_width(shape.key_width, packs_fit, [&](auto width, auto packed) {
    constexpr int kWidth = decltype(width)::value;
    constexpr bool kPacked = decltype(packed)::value;
    const std::int64_t per_pair = sizeof(PairShared<T, kWidth>);
    const int pairs = warps_per_block(per_pair);
    const int bytes = static_cast<int>(pairs * per_pair);
    auto* kernel = preconditioner_bwd_kernel<T, kWidth, kPacked>;
    check_cuda(cudaFuncSetAttribute(
                   kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
               "preconditioner_bwd: shared memory");
    kernel<<<grid_size(shape.documents * shape.value_heads, pairs), pairs * 64,
             static_cast<std::size_t>(bytes), stream>>>(p, stride, d0_partial,
                                                        out);
    check_launch("preconditioner_bwd");
  });
  if (out.per_value_head != nullptr && shape.tokens > 0) {
    const std::int64_t elements =
        shape.tokens * shape.key_heads * shape.key_width;
    sum_groups_kernel<T><<<grid_size(elements, 256, 1 << 20), 256, 0, stream>>>(
        out.per_value_head, static_cast<const T*>(p.grad_k_addend),
        static_cast<T*>(p.grad_k), elements, shape.key_width,
        shape.value_heads / shape.key_heads);
    check_launch("preconditioner_bwd: sum over value heads");
  }
}

}  // namespace

std::int64_t preconditioner_bwd_workspace_bytes(
    const PreconditionerBwdParams& p) {
  return d0_partial_bytes(p.shape) + group_partial_bytes(p.shape);
}

const char* preconditioner_bwd_unsupported(const PreconditionerBwdParams& p) {
  if (const char* reason = shape_unsupported(p.shape)) return reason;
  if (p.cu_seqlens == nullptr || p.grad_d0 == nullptr) {
    return "cu_seqlens and grad_d0 must be given";
  }
  if ((p.r == nullptr) != (p.grad_r == nullptr)) {
    return "grad_r must be given exactly when r is";
  }
  if (p.shape.tokens > 0 &&
      (p.k == nullptr || p.s == nullptr || p.d_checkpoint == nullptr ||
       p.grad_k_write == nullptr || p.grad_k == nullptr)) {
    return "k, s, d_checkpoint, grad_k_write and grad_k must be given";
  }
  if (p.shape.tokens > 0 && p.shape.beta_aware &&
      (p.beta == nullptr || p.grad_beta == nullptr)) {
    return "beta and grad_beta must be given when beta_aware is set";
  }
  if (p.workspace == nullptr && preconditioner_bwd_workspace_bytes(p) > 0) {
    return "workspace must be given";
  }
  return nullptr;
}

void preconditioner_bwd(const PreconditionerBwdParams& p, Stream stream) {
  require_supported("preconditioner_bwd", preconditioner_bwd_unsupported(p));
  const PreconditionerShape& shape = p.shape;
  if (shape.documents > 0) {
    if (shape.element == Element::kBF16) {
      launch<__nv_bfloat16>(p, stream);
    } else {
      launch<float>(p, stream);
    }
  }
  if (!shape.d0_per_document) {
    const std::int64_t columns = shape.value_heads * shape.key_width;
    column_sum("preconditioner_bwd: sum over documents",
               static_cast<const float*>(p.workspace), shape.documents, columns,
               p.grad_d0, stream);
  }
}

}  // namespace osdn::kernels
