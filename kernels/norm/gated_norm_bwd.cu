// Backward of the gated RMSNorm per head. With n = o rstd and a = act(gate):
//
//   grad_gate = gy n w a';  dn = gy w a;  do = rstd (dn - n mean(dn n))
//   dw += gy n a, summed by a fixed number of blocks, then over blocks
//
// n and a are formed again from o and gate, in the forward's order.

#include "kernels/common/column_sum.cuh"
#include "kernels/common/launch_check.cuh"
#include "kernels/norm/gated_norm_device.cuh"

namespace osdn::kernels {
namespace {

using namespace norm;

constexpr std::int64_t kMaxBlocks = 528;

std::int64_t blocks_of(std::int64_t rows, std::int64_t groups) {
  const std::int64_t blocks = (rows + groups - 1) / groups;
  return blocks < kMaxBlocks ? blocks : kMaxBlocks;
}

template <typename Layout>
__global__ void __launch_bounds__(kThreads)
    gated_norm_bwd_kernel(const GatedNormBwdParams p, std::int64_t gate_stride,
                          std::int64_t grad_gate_stride, float* partial) {
  using T = typename Layout::Element;
  constexpr int kPackSize = Layout::kPackSize, kPacks = Layout::kPacks;
  constexpr int kTogether = kPackSize == 1 || kPacks > 1 ? 1 : 2;
  constexpr int kColumns = Layout::kLanes * kPackSize * kPacks;
  __shared__ float strands[Layout::kGroups][kColumns];
  const GatedNormShape& shape = p.shape;
  const int width = static_cast<int>(shape.width);
  const float inverse_width = 1.0f / static_cast<float>(width);
  const std::int64_t rows = shape.tokens * shape.heads;
  const bool gated = shape.activation != GateActivation::kNone;
  float grad_weight[kPacks][kPackSize] = {};

  const std::int64_t step =
      static_cast<std::int64_t>(gridDim.x) * Layout::kGroups;
  // The trip count is the block's, since the sums need all lanes.
  for (std::int64_t block_row =
           static_cast<std::int64_t>(blockIdx.x) * Layout::kGroups;
       block_row < rows; block_row += step * kTogether) {
    Pack<T, kPackSize> o[kTogether][kPacks], gate[kTogether][kPacks],
        grad_y[kTogether][kPacks];
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      const std::int64_t row = block_row + r * step + Layout::group();
      if (row >= rows) continue;
      const std::int64_t gate_at =
          strided_row(row, shape.heads, shape.width, gate_stride);
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        if (Layout::first(i) >= width) continue;
        const std::int64_t at = row * width + Layout::first(i);
        o[r][i] = load_pack<T, kPackSize>(static_cast<const T*>(p.o) + at);
        grad_y[r][i] =
            load_pack<T, kPackSize>(static_cast<const T*>(p.grad_y) + at);
        if (gated) {
          gate[r][i] = load_pack<T, kPackSize>(static_cast<const T*>(p.gate) +
                                               gate_at + Layout::first(i));
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      const std::int64_t row = block_row + r * step + Layout::group();
      const bool present = row < rows;
      float squares = 0.0f, along = 0.0f;
      float grad_n[kPacks][kPackSize], slope[kPacks][kPackSize];
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        if (!present || Layout::first(i) >= width) continue;
        float weight[kPackSize];
        load_floats<kPackSize>(p.weight + Layout::first(i), weight);
#pragma unroll
        for (int j = 0; j < kPackSize; ++j) {
          const float value = value_at(o[r][i], j);
          const float grad = value_at(grad_y[r][i], j);
          Activated act{1.0f, 0.0f};
          if (gated) {
            act = activate(shape.activation, value_at(gate[r][i], j));
          }
          squares = fmaf(value, value, squares);
          grad_n[i][j] = grad * weight[j] * act.value;
          slope[i][j] = grad * weight[j] * act.slope;
          along = fmaf(grad_n[i][j], value, along);
        }
      }
      squares = lane_sum<Layout::kLanes>(squares);
      along = lane_sum<Layout::kLanes>(along);
      const float rstd = rsqrtf(squares * inverse_width + shape.eps);
      const float pull = rstd * rstd * along * inverse_width;
      if (!present) continue;
      const std::int64_t grad_gate_at =
          strided_row(row, shape.heads, shape.width, grad_gate_stride);
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        if (Layout::first(i) >= width) continue;
        float weight[kPackSize], grad_o[kPackSize], grad_gate[kPackSize];
        load_floats<kPackSize>(p.weight + Layout::first(i), weight);
#pragma unroll
        for (int j = 0; j < kPackSize; ++j) {
          const float value = value_at(o[r][i], j);
          const float n = value * rstd;
          Activated act{1.0f, 0.0f};
          if (gated) {
            act = activate(shape.activation, value_at(gate[r][i], j));
          }
          grad_o[j] = rstd * fmaf(-value, pull, grad_n[i][j]);
          grad_gate[j] = n * slope[i][j];
          grad_weight[i][j] =
              fmaf(value_at(grad_y[r][i], j) * act.value, n, grad_weight[i][j]);
        }
        store_floats(static_cast<T*>(p.grad_o) + row * width + Layout::first(i),
                     grad_o);
        if (gated) {
          store_floats(
              static_cast<T*>(p.grad_gate) + grad_gate_at + Layout::first(i),
              grad_gate);
        }
      }
    }
  }

#pragma unroll
  for (int i = 0; i < kPacks; ++i) {
#pragma unroll
    for (int j = 0; j < kPackSize; ++j) {
      strands[Layout::group()][Layout::first(i) + j] = grad_weight[i][j];
    }
  }
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < width; c += kThreads) {
    float sum = strands[0][c];
#pragma unroll
    for (int g = 1; g < Layout::kGroups; ++g) sum += strands[g][c];
    partial[blockIdx.x * shape.width + c] = sum;
  }
}

template <typename T>
void launch(const GatedNormBwdParams& p, Stream stream) {
  const GatedNormShape& shape = p.shape;
  const std::int64_t row = shape.heads * shape.width;
  const std::int64_t stride = p.gate_stride != 0 ? p.gate_stride : row;
  const std::int64_t grad_stride =
      p.grad_gate_stride != 0 ? p.grad_gate_stride : row;
  const bool packs_fit = is_aligned(p.o, 16) && is_aligned(p.gate, 16) &&
                         is_aligned(p.grad_y, 16) && is_aligned(p.grad_o, 16) &&
                         is_aligned(p.grad_gate, 16) &&
                         is_aligned(p.weight, 32) && stride % kPackOf<T> == 0 &&
                         grad_stride % kPackOf<T> == 0;
  float* partial = static_cast<float*>(p.workspace);
  with_head<T>(shape.width, packs_fit, [&](auto layout) {
    using Layout = decltype(layout);
    const std::int64_t blocks =
        blocks_of(shape.tokens * shape.heads, Layout::kGroups);
    if (blocks > 0) {
      gated_norm_bwd_kernel<Layout>
          <<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
              p, stride, grad_stride, partial);
      check_launch("gated_norm_bwd");
    }
    column_sum("gated_norm_bwd: sum over blocks", partial, blocks, shape.width,
               p.grad_weight, stream);
  });
}

}  // namespace

std::int64_t gated_norm_bwd_workspace_bytes(const GatedNormBwdParams& p) {
  return blocks_of(p.shape.tokens * p.shape.heads, 1) * p.shape.width * 4;
}

const char* gated_norm_bwd_unsupported(const GatedNormBwdParams& p) {
  if (const char* reason = shape_unsupported(p.shape)) return reason;
  const bool gated = p.shape.activation != GateActivation::kNone;
  if (p.shape.tokens > 0 &&
      (gated == (p.gate == nullptr) || gated == (p.grad_gate == nullptr))) {
    return "gate and grad_gate must be given exactly when there is an "
           "activation";
  }
  for (const std::int64_t stride : {p.gate_stride, p.grad_gate_stride}) {
    if (stride != 0 && stride < p.shape.heads * p.shape.width) {
      return "gate strides must be 0 or at least heads * width";
    }
  }
  if (p.weight == nullptr || p.grad_weight == nullptr) {
    return "weight and grad_weight must be given";
  }
  if (p.shape.tokens > 0 && (p.o == nullptr || p.grad_y == nullptr ||
                             p.grad_o == nullptr || p.workspace == nullptr)) {
    return "o, grad_y, grad_o and workspace must be given";
  }
  return nullptr;
}

void gated_norm_bwd(const GatedNormBwdParams& p, Stream stream) {
  require_supported("gated_norm_bwd", gated_norm_bwd_unsupported(p));
  if (p.shape.element == Element::kBF16) {
    launch<__nv_bfloat16>(p, stream);
  } else {
    launch<float>(p, stream);
  }
}

}  // namespace osdn::kernels
