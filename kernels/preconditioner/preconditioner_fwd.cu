// Forward of the preconditioner: one warp per (document, value head). The chain
// of a token is a sum over the lanes (5 shuffles), one FMA for a, one for d and
// the clip; everything else is prepared 16 tokens at a time beside it.

#include <type_traits>

#include "kernels/common/launch_check.cuh"
#include "kernels/preconditioner/preconditioner_device.cuh"

namespace osdn::kernels {
namespace {

using namespace precond;

template <typename T, int Width>
struct WarpShared {
  TokenScalars token[kBlock];
  alignas(16) T k[2][kBlock][32 * Width];
};

template <typename T, int Width, bool Packed>
__global__ void __launch_bounds__(kMaxWarps * 32, 1)
    preconditioner_fwd_kernel(const PreconditionerFwdParams p,
                              std::int64_t row_stride) {
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
  T* k_write = static_cast<T*>(p.k_write) + out_at;
  const std::int64_t token_at = chain.begin * heads + chain.value_head;
  const std::int64_t d_at =
      (chain.document * heads + chain.value_head) * key_width;
  const float* d0 =
      p.d0 + (shape.d0_per_document ? d_at : chain.value_head * key_width);
  const float lo = shape.box_lo, hi = shape.box_hi;

  float d[Width];
  load_channels<Width, Packed>(d0, channel, key_width, d);

  // Two lanes fetch the scalars of one token of the block ahead.
  float beta_next = 0.0f, r_next = 1.0f;
  const auto fetch = [&](std::int64_t first, int buffer) {
    const int rows = block_rows(chain, first);
    stage_rows<T, Width, Packed>(&shared.k[buffer][0][channel],
                                 k + first * row_stride, row_stride, rows,
                                 channel, key_width);
    beta_next = 0.0f;
    r_next = 1.0f;
    if (lane / 2 < rows) {
      const std::int64_t at = token_at + (first + lane / 2) * heads;
      if (shape.beta_aware) beta_next = p.beta[at];
      if (p.r != nullptr) r_next = p.r[at];
    }
    copy_commit();
  };

  fetch(0, 0);
  for (std::int64_t first = 0; uniform(first < chain.length); first += kBlock) {
    const int buffer = static_cast<int>(first / kBlock % 2);
    const int rows = block_rows(chain, first);
    copy_wait_all();
    const float beta = beta_next, r = r_next;
    fetch(first + kBlock, buffer ^ 1);

    float squares[kBlock];
#pragma unroll
    for (int row = 0; row < kBlock; ++row) {
      float key[Width];
      load_floats<Width>(&shared.k[buffer][row][channel], key);
      squares[row] = lane_dot(key, key);
    }
    const float sum_squares = block_token_sums(squares, lane);
    __syncwarp();
    if (lane % 2 == 0) {
      shared.token[lane / 2] = token_scalars(shape, sum_squares, beta, r);
    }
    __syncwarp();

    if (p.d_checkpoint != nullptr) {
      store_channels<Width, Packed>(
          p.d_checkpoint + ((checkpoint_row(chain) + first / kBlock) * heads +
                            chain.value_head) *
                               key_width,
          channel, key_width, d);
    }
    float s_kept = 0.0f;
    T* to = k_write + first * out_row;
#pragma unroll
    for (int row = 0; row < kBlock; ++row) {
      const TokenScalars token = shared.token[row];
      float key[Width], k_sq[Width], written[Width];
      load_floats<Width>(&shared.k[buffer][row][channel], key);
#pragma unroll
      for (int i = 0; i < Width; ++i) {
        k_sq[i] = squared(key[i], token.k_scale);
        written[i] = d[i] * key[i];
      }
      const float s = lane_sum(lane_dot(d, k_sq));
      if constexpr (Packed) {
        const Pack<T, Width> pack = pack_floats<T>(written);
        if (row < rows && channel < key_width) {
          *reinterpret_cast<Pack<T, Width>*>(to + channel) = pack;
        }
      } else if (row < rows) {
        store_channels<Width, Packed>(to, channel, key_width, written);
        if (p.d_per_token != nullptr) {
          store_channels<Width, Packed>(
              p.d_per_token + out_at + (first + row) * out_row, channel,
              key_width, d);
        }
      }
      to += out_row;
      const float a = step_size(token.rate, token.rate_beta, s);
#pragma unroll
      for (int i = 0; i < Width; ++i) {
        d[i] = clip(stepped(d[i], token.r, a, k_sq[i]), lo, hi);
      }
      s_kept = lane == row ? s : s_kept;
    }
    if (p.s != nullptr && lane < rows) {
      p.s[token_at + (first + lane) * heads] = s_kept;
    }
  }
  copy_wait_all();
  if (p.d_T == nullptr) return;
  store_channels<Width, Packed>(p.d_T + d_at, channel, key_width, d);
}

template <typename T>
void launch(const PreconditionerFwdParams& p, Stream stream) {
  const PreconditionerShape& shape = p.shape;
  const std::int64_t stride = k_row_stride(shape);
  const std::uintptr_t pack = lane_pack_bytes(shape.key_width, sizeof(T));
  // The diagnostic output of d has no packed instance.
  const bool packs_fit = p.d_per_token == nullptr && is_aligned(p.k, pack) &&
                         is_aligned(p.k_write, pack) &&
                         stride * static_cast<std::int64_t>(sizeof(T)) %
                                 static_cast<std::int64_t>(pack) ==
                             0 &&
                         is_aligned(p.d0, 16) && is_aligned(p.d_T, 16) &&
                         is_aligned(p.d_checkpoint, 16);
  with_lane_width(shape.key_width, packs_fit, [&](auto width, auto packed) {
    constexpr int kWidth = decltype(width)::value;
    constexpr bool kPacked = decltype(packed)::value;
    const std::int64_t per_warp = sizeof(WarpShared<T, kWidth>);
    const int warps = warps_per_block(per_warp);
    const int bytes = static_cast<int>(warps * per_warp);
    auto* kernel = preconditioner_fwd_kernel<T, kWidth, kPacked>;
    check_cuda(cudaFuncSetAttribute(
                   kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
               "preconditioner_fwd: shared memory");
    kernel<<<grid_size(shape.documents * shape.value_heads, warps), warps * 32,
             static_cast<std::size_t>(bytes), stream>>>(p, stride);
    check_launch("preconditioner_fwd");
  });
}

}  // namespace

const char* preconditioner_fwd_unsupported(const PreconditionerFwdParams& p) {
  if (const char* reason = shape_unsupported(p.shape)) return reason;
  if ((p.s == nullptr) != (p.d_checkpoint == nullptr)) {
    return "s and d_checkpoint must be given both or neither";
  }
  if (p.cu_seqlens == nullptr || p.d0 == nullptr) {
    return "cu_seqlens and d0 must be given";
  }
  if (p.shape.tokens > 0 && (p.k == nullptr || p.k_write == nullptr)) {
    return "k and k_write must be given";
  }
  if (p.shape.tokens > 0 && p.shape.beta_aware && p.beta == nullptr) {
    return "beta must be given when beta_aware is set";
  }
  return nullptr;
}

void preconditioner_fwd(const PreconditionerFwdParams& p, Stream stream) {
  require_supported("preconditioner_fwd", preconditioner_fwd_unsupported(p));
  if (p.shape.documents == 0) return;
  if (p.shape.element == Element::kBF16) {
    launch<__nv_bfloat16>(p, stream);
  } else {
    launch<float>(p, stream);
  }
}

}  // namespace osdn::kernels
