// Backward of RMSNorm. A fixed number of blocks walks the rows, keeps its part
// of the weight's gradient in registers, and leaves one row of partials; these
// are then summed in order.
//
//   c = sum_j gy_j w_j x_j;  dx = rstd (gy w - x rstd^2 c / h) + grad_sum
//   dw += gy x rstd

#include "kernels/common/column_sum.cuh"
#include "kernels/common/launch_check.cuh"
#include "kernels/norm/rms_norm.cuh"
#include "kernels/norm/rms_norm_device.cuh"

namespace osdn::kernels {
namespace {

using namespace norm;

/// Two blocks of 8 warps on each of 132 multiprocessors; a constant, so that
/// the order of the sum does not depend on the device.
constexpr std::int64_t kMaxBlocks = 264;

std::int64_t blocks_of(std::int64_t rows, std::int64_t block_rows) {
  const std::int64_t blocks = (rows + block_rows - 1) / block_rows;
  return blocks < kMaxBlocks ? blocks : kMaxBlocks;
}

template <typename T, int PackSize, int RowWarps>
__global__ void __launch_bounds__(kBlockWarps<RowWarps> * 32,
                                  RowWarps == 1 ? 2 : 1)
    rms_norm_bwd_kernel(const RmsNormBwdParams p, float* partial) {
  constexpr bool kSharedBlock = RowWarps == 1;
  __shared__ float scratch[RowWarps];
  __shared__ float strands[kSharedBlock ? 8 : 1]
                          [kSharedBlock ? 32 * kLaneElements : 1];
  using Place = RowPlace<T, PackSize, RowWarps>;
  constexpr int kPacks = Place::kPacks;
  const Place place(p.width);
  const float inverse_width = 1.0f / static_cast<float>(place.width);
  const std::int64_t group = threadIdx.x / (32 * RowWarps);
  float grad_weight[kPacks][PackSize] = {};

  for (std::int64_t row =
           static_cast<std::int64_t>(blockIdx.x) * kBlockRows<RowWarps> + group;
       row < p.rows;
       row += static_cast<std::int64_t>(gridDim.x) * kBlockRows<RowWarps>) {
    const std::int64_t at = row * p.width;
    Pack<T, PackSize> x[kPacks], grad_y[kPacks], grad_sum[kPacks];
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (!place.has(i)) continue;
      const std::int64_t from = at + place.first(i);
      x[i] = load_pack<T, PackSize>(static_cast<const T*>(p.x) + from);
      grad_y[i] =
          load_pack<T, PackSize>(static_cast<const T*>(p.grad_y) + from);
      if (p.grad_sum != nullptr) {
        grad_sum[i] =
            load_pack<T, PackSize>(static_cast<const T*>(p.grad_sum) + from);
      }
    }
    float squares = 0.0f, along = 0.0f;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (!place.has(i)) continue;
      float weight[PackSize];
      load_floats<PackSize>(p.weight + place.first(i), weight);
#pragma unroll
      for (int j = 0; j < PackSize; ++j) {
        const float value = value_at(x[i], j);
        squares = fmaf(value, value, squares);
        along = fmaf(value_at(grad_y[i], j) * weight[j], value, along);
      }
    }
    squares = row_sum<RowWarps>(squares, scratch);
    along = row_sum<RowWarps>(along, scratch);
    const float rstd = rsqrtf(squares * inverse_width + p.eps);
    const float pull = rstd * rstd * along * inverse_width;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      keep_packed(x[i]);
      keep_packed(grad_y[i]);
    }
    asm volatile("" ::: "memory");  // the weights are read again, not kept
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (!place.has(i)) continue;
      float weight[PackSize], out[PackSize];
      load_floats<PackSize>(p.weight + place.first(i), weight);
#pragma unroll
      for (int j = 0; j < PackSize; ++j) {
        const float value = value_at(x[i], j);
        const float grad = value_at(grad_y[i], j);
        out[j] = rstd * fmaf(grad, weight[j], -value * pull);
        if (p.grad_sum != nullptr) out[j] += value_at(grad_sum[i], j);
        grad_weight[i][j] = fmaf(grad, value * rstd, grad_weight[i][j]);
      }
      store_floats(static_cast<T*>(p.grad_x) + at + place.first(i), out);
    }
  }

  float* block_partial = partial + blockIdx.x * p.width;
  if constexpr (kSharedBlock) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
#pragma unroll
      for (int j = 0; j < PackSize; ++j) {
        strands[group][place.first(i) + j] = grad_weight[i][j];
      }
    }
    __syncthreads();
    for (int c = static_cast<int>(threadIdx.x); c < place.width; c += 256) {
      float sum = strands[0][c];
#pragma unroll
      for (int w = 1; w < 8; ++w) sum += strands[w][c];
      block_partial[c] = sum;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (place.has(i)) {
        store_floats(block_partial + place.first(i), grad_weight[i]);
      }
    }
  }
}

template <typename T>
void launch(const RmsNormBwdParams& p, Stream stream) {
  const bool packs_fit = is_aligned(p.x, 16) && is_aligned(p.grad_y, 16) &&
                         is_aligned(p.grad_sum, 16) &&
                         is_aligned(p.grad_x, 16) && is_aligned(p.weight, 32) &&
                         is_aligned(p.workspace, 32);
  float* partial = static_cast<float*>(p.workspace);
  with_row<T>(p.width, packs_fit, [&](auto pack_size, auto row_warps) {
    constexpr int kPackSize = decltype(pack_size)::value;
    constexpr int kRowWarps = decltype(row_warps)::value;
    const std::int64_t blocks = blocks_of(p.rows, kBlockRows<kRowWarps>);
    if (blocks > 0) {
      rms_norm_bwd_kernel<T, kPackSize, kRowWarps>
          <<<static_cast<unsigned>(blocks), kBlockWarps<kRowWarps> * 32, 0,
             stream>>>(p, partial);
      check_launch("rms_norm_bwd");
    }
    column_sum("rms_norm_bwd: sum over blocks", partial, blocks, p.width,
               p.grad_weight, stream);
  });
}

}  // namespace

std::int64_t rms_norm_bwd_workspace_bytes(const RmsNormBwdParams& p) {
  return blocks_of(p.rows, 1) * p.width * 4;
}

const char* rms_norm_bwd_unsupported(const RmsNormBwdParams& p) {
  if (p.rows < 0 || p.width < 1 || p.width > kMaxWidth) {
    return "rows must not be negative, width must be 1 to 16384";
  }
  if (p.weight == nullptr || p.grad_weight == nullptr) {
    return "weight and grad_weight must be given";
  }
  if (p.rows > 0 && (p.x == nullptr || p.grad_y == nullptr ||
                     p.grad_x == nullptr || p.workspace == nullptr)) {
    return "x, grad_y, grad_x and workspace must be given";
  }
  return nullptr;
}

void rms_norm_bwd(const RmsNormBwdParams& p, Stream stream) {
  require_supported("rms_norm_bwd", rms_norm_bwd_unsupported(p));
  if (p.element == Element::kBF16) {
    launch<__nv_bfloat16>(p, stream);
  } else {
    launch<float>(p, stream);
  }
}

}  // namespace osdn::kernels
