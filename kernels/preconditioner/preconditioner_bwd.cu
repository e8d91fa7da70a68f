// Backward of the preconditioner: one warp per (document, value head), last
// token first, in blocks of 16. A block re-derives its d from the checkpoint
// and the saved s, without a reduction; then the chain runs backward with one
// sum over the lanes a token:
//
//   lam  <- lam where the clip passed, else 0;   B = <lam, k2>
//   dk2   = a lam + ds d + dn,  ds = -eta beta^2 B / n,  dn = -a B / n * n'
//   dbeta = eta (1 - 2 beta s) B / n;            dr = <lam, d>
//   lam  <- r lam + ds k2 + dkt k
//
// The sums that the chain does not wait for (dr, the key norm's <kh, dkh>) are
// taken for 16 tokens together.

#include <type_traits>

#include "kernels/common/column_sum.cuh"
#include "kernels/common/launch_check.cuh"
#include "kernels/preconditioner/preconditioner_device.cuh"

namespace osdn::kernels {
namespace {

using namespace precond;

constexpr int kHalf = kBlock / 2;

template <typename T, int Width>
struct WarpShared {
  TokenScalars token[kBlock];
  float2 slope[kBlock];  ///< a and what the norm adds: n' / n
  float2 sums[kBlock];   ///< <lam, d> and <k, w>, see below
  alignas(16) float d[kBlock][32 * Width];  ///< then the key's gradient
  alignas(16) T k[2][kBlock][32 * Width];
  alignas(16) T grad[2][kBlock][32 * Width];
};

/// Where the gradient of the key goes: rounded at once, or one fp32 row per
/// value head for sum_groups_kernel.
struct KeyGradient {
  float* per_value_head;
  void* direct;
  const void* addend;
};

template <typename T, int Width, bool Packed>
__global__ void __launch_bounds__(kMaxWarps * 32, 1)
    preconditioner_bwd_kernel(const PreconditionerBwdParams p,
                              std::int64_t row_stride, float* d0_partial,
                              const KeyGradient out) {
  extern __shared__ __align__(16) unsigned char shared_bytes[];
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  auto& shared = reinterpret_cast<WarpShared<T, Width>*>(shared_bytes)[warp];
  const PreconditionerShape& shape = p.shape;
  const std::int64_t index =
      static_cast<std::int64_t>(blockIdx.x) * (blockDim.x / 32) + warp;
  if (uniform(index >= shape.documents * shape.value_heads)) return;
  const Chain chain = chain_at(index, shape, p.cu_seqlens);
  const int key_width = static_cast<int>(shape.key_width);
  const int channel = lane * Width;
  const std::int64_t heads = shape.value_heads;
  const T* k = static_cast<const T*>(p.k) + chain.begin * row_stride +
               chain.value_head / (heads / shape.key_heads) * key_width;
  const std::int64_t out_row = heads * key_width;
  const std::int64_t out_at =
      chain.begin * out_row + chain.value_head * key_width;
  const T* grad = static_cast<const T*>(p.grad_k_write) + out_at;
  const std::int64_t token_at = chain.begin * heads + chain.value_head;
  const std::int64_t d_at =
      (chain.document * heads + chain.value_head) * key_width;
  const float lo = shape.box_lo, hi = shape.box_hi;

  float lam[Width] = {};
  if (p.grad_d_T != nullptr && !p.detach) {
    load_channels<Width, Packed>(p.grad_d_T + d_at, channel, key_width, lam);
  }

  // What a block needs, on its way while the block after it is worked on.
  float beta_next = 0.0f, r_next = 1.0f, s_next = 0.0f, d_next[Width];
  const auto fetch = [&](std::int64_t first, int buffer) {
    const int rows = first < 0 ? 0 : block_rows(chain, first);
    stage_rows<T, Width, Packed>(&shared.k[buffer][0][channel],
                                 k + first * row_stride, row_stride, rows,
                                 channel, key_width);
    stage_rows<T, Width, Packed>(&shared.grad[buffer][0][channel],
                                 grad + first * out_row, out_row, rows, channel,
                                 key_width);
    beta_next = s_next = 0.0f;
    r_next = 1.0f;
    if (lane / 2 < rows) {
      const std::int64_t at = token_at + (first + lane / 2) * heads;
      if (shape.beta_aware) beta_next = p.beta[at];
      if (p.r != nullptr) r_next = p.r[at];
      s_next = p.s[at];
    }
    if (rows > 0) {
      load_channels<Width, Packed>(
          p.d_checkpoint + ((checkpoint_row(chain) + first / kBlock) * heads +
                            chain.value_head) *
                               key_width,
          channel, key_width, d_next);
    }
    copy_commit();
  };

  const std::int64_t last =
      (chain.length + kBlock - 1) / kBlock * kBlock - kBlock;
  fetch(last, static_cast<int>(last / kBlock & 1));
  for (std::int64_t first = last; uniform(first >= 0); first -= kBlock) {
    const int buffer = static_cast<int>(first / kBlock & 1);
    const int rows = block_rows(chain, first);
    copy_wait_all();
    const float beta = beta_next, r = r_next, s = s_next;
    float d[Width];
#pragma unroll
    for (int i = 0; i < Width; ++i) d[i] = d_next[i];
    fetch(first - kBlock, buffer ^ 1);

    float squares[kBlock];
#pragma unroll
    for (int row = 0; row < kBlock; ++row) {
      float key[Width];
      load_floats<Width>(&shared.k[buffer][row][channel], key);
      squares[row] = lane_dot(key, key);
    }
    const float sum_squares = block_token_sums(squares, lane);
    float inverse_n = 0.0f, energy_slope = 0.0f;
    __syncwarp();
    const TokenScalars mine =
        token_scalars(shape, sum_squares, beta, r, &inverse_n, &energy_slope);
    if (lane % 2 == 0) {
      shared.token[lane / 2] = mine;
      shared.slope[lane / 2] =
          make_float2(step_size(mine.rate, mine.rate_beta, s), energy_slope);
    }
    __syncwarp();

#pragma unroll 8
    for (int row = 0; row < kBlock; ++row) {
      const TokenScalars token = shared.token[row];
      const float a = shared.slope[row].x;
      store_floats<Width>(&shared.d[row][channel], d);
      float key[Width];
      load_floats<Width>(&shared.k[buffer][row][channel], key);
#pragma unroll
      for (int i = 0; i < Width; ++i) {
        d[i] = clip(stepped(d[i], token.r, a, squared(key[i], token.k_scale)),
                    lo, hi);
      }
    }

    // Down the chain. With w = k 2 dk2, the key's gradient is grad_kt d +
    // k_scale^2 (w - k_scale^2 <k, w> k). What the chain does not wait for,
    // <lam, d> and <k, w>, is summed over the lanes 8 tokens at a time.
    float pull_kept = 0.0f;
#pragma unroll 1
    for (int half = kBlock - kHalf; half >= 0; half -= kHalf) {
      float lane_parts[kBlock];
#pragma unroll
      for (int i = kHalf - 1; i >= 0; --i) {
        const int row = half + i;
        const TokenScalars token = shared.token[row];
        const float2 slope = shared.slope[row];
        float key[Width], before[Width], grad_kt[Width], k_sq[Width];
        float w[Width], grad_key[Width], carried[Width];
        load_floats<Width>(&shared.k[buffer][row][channel], key);
        load_floats<Width>(&shared.grad[buffer][row][channel], grad_kt);
        load_floats<Width>(&shared.d[row][channel], before);
#pragma unroll
        for (int c = 0; c < Width; ++c) {
          k_sq[c] = squared(key[c], token.k_scale);
          const float unclipped = stepped(before[c], token.r, slope.x, k_sq[c]);
          lam[c] = unclipped >= lo && unclipped <= hi ? lam[c] : 0.0f;
          carried[c] = fmaf(grad_kt[c], key[c], token.r * lam[c]);
        }
        const float pull = lane_sum(lane_dot(lam, k_sq));
        const float ds = -token.rate_beta * pull;
        const float dn = -slope.x * pull * slope.y;
        const float rk2 = token.k_scale * token.k_scale;
        lane_parts[i] = lane_dot(lam, before);
#pragma unroll
        for (int c = 0; c < Width; ++c) {
          const float dk_sq = fmaf(slope.x, lam[c], fmaf(ds, before[c], dn));
          w[c] = 2.0f * key[c] * dk_sq;
          grad_key[c] = fmaf(rk2, w[c], grad_kt[c] * before[c]);
          lam[c] = p.detach ? 0.0f : fmaf(ds, k_sq[c], carried[c]);
        }
        lane_parts[kHalf + i] = lane_dot(key, w);
        store_floats<Width>(&shared.d[row][channel], grad_key);
        pull_kept = lane / 2 == row ? pull : pull_kept;
      }
      const float sum = block_token_sums(lane_parts, lane);
      if (lane % 2 == 0) {
        float2& sums_of = shared.sums[half + lane / 2 % kHalf];
        (lane / 2 < kHalf ? sums_of.x : sums_of.y) = sum;
      }
    }
    __syncwarp();
    if (lane % 2 == 0 && lane / 2 < rows) {
      const std::int64_t at = token_at + (first + lane / 2) * heads;
      if (p.grad_beta != nullptr) {
        p.grad_beta[at] = shape.beta_aware ? pull_kept * shape.eta * inverse_n *
                                                 fmaf(-2.0f * beta, s, 1.0f)
                                           : 0.0f;
      }
      if (p.r != nullptr) p.grad_r[at] = shared.sums[lane / 2].x;
    }
    // The norm's part, and out. `put` stores a row: one plain loop for each
    // way out.
    const auto each_row = [&](auto&& put) {
      std::int64_t to = out_at + first * out_row;
#pragma unroll 4
      for (int row = 0; row < rows; ++row) {
        const float k_scale = shared.token[row].k_scale;
        const float rk2 = k_scale * k_scale;
        const float scale =
            shape.l2_norm ? -rk2 * rk2 * shared.sums[row].y : 0.0f;
        float key[Width], grad_key[Width];
        load_floats<Width>(&shared.k[buffer][row][channel], key);
        load_floats<Width>(&shared.d[row][channel], grad_key);
#pragma unroll
        for (int i = 0; i < Width; ++i) {
          grad_key[i] = fmaf(scale, key[i], grad_key[i]);
        }
        put(to, grad_key);
        to += out_row;
      }
    };
    if (out.per_value_head != nullptr) {
      each_row([&](std::int64_t to, float(&grad_key)[Width]) {
        store_channels<Width, Packed>(out.per_value_head + to, channel,
                                      key_width, grad_key);
      });
    } else if (out.addend != nullptr) {
      each_row([&](std::int64_t to, float(&grad_key)[Width]) {
        float other[Width];
        load_channels<Width, Packed>(static_cast<const T*>(out.addend) + to,
                                     channel, key_width, other);
#pragma unroll
        for (int i = 0; i < Width; ++i) grad_key[i] += other[i];
        store_channels<Width, Packed>(static_cast<T*>(out.direct) + to, channel,
                                      key_width, grad_key);
      });
    } else {
      each_row([&](std::int64_t to, float(&grad_key)[Width]) {
        store_channels<Width, Packed>(static_cast<T*>(out.direct) + to, channel,
                                      key_width, grad_key);
      });
    }
  }
  copy_wait_all();
  store_channels<Width, Packed>(d0_partial + d_at, channel, key_width, lam);
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
    const std::int64_t per_warp = sizeof(WarpShared<T, kWidth>);
    const int warps = warps_per_block(per_warp);
    const int bytes = static_cast<int>(warps * per_warp);
    auto* kernel = preconditioner_bwd_kernel<T, kWidth, kPacked>;
    check_cuda(cudaFuncSetAttribute(
                   kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
               "preconditioner_bwd: shared memory");
    kernel<<<grid_size(shape.documents * shape.value_heads, warps), warps * 32,
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
