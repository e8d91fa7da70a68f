// Forward of the gated RMSNorm per head.

#include "kernels/common/launch_check.cuh"
#include "kernels/norm/gated_norm_device.cuh"

namespace osdn::kernels {
namespace {

using namespace norm;

/// Rows whose loads are in flight together.
constexpr int kRows = 4;

template <typename Layout>
__global__ void __launch_bounds__(kThreads)
    gated_norm_fwd_kernel(const GatedNormFwdParams p,
                          std::int64_t gate_stride) {
  using T = typename Layout::Element;
  constexpr int kPackSize = Layout::kPackSize, kPacks = Layout::kPacks;
  constexpr int kTogether = kPackSize == 1 || kPacks > 2 ? 1 : kRows;
  const GatedNormShape& shape = p.shape;
  const int width = static_cast<int>(shape.width);
  const std::int64_t rows = shape.tokens * shape.heads;
  const bool gated = shape.activation != GateActivation::kNone;
  const std::int64_t row0 =
      static_cast<std::int64_t>(blockIdx.x) * Layout::kGroups * kRows +
      Layout::group();
  for (int at = 0; at < kRows; at += kTogether) {
    Pack<T, kPackSize> o[kTogether][kPacks], gate[kTogether][kPacks];
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      const std::int64_t row = row0 + (at + r) * Layout::kGroups;
      if (row >= rows) continue;
      const std::int64_t gate_at =
          strided_row(row, shape.heads, shape.width, gate_stride);
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        if (Layout::first(i) >= width) continue;
        o[r][i] = load_pack<T, kPackSize>(static_cast<const T*>(p.o) +
                                          row * width + Layout::first(i));
        if (gated) {
          gate[r][i] = load_pack<T, kPackSize>(static_cast<const T*>(p.gate) +
                                               gate_at + Layout::first(i));
        }
      }
    }
#pragma unroll
    for (int r = 0; r < kTogether; ++r) {
      const std::int64_t row = row0 + (at + r) * Layout::kGroups;
      float squares = 0.0f;
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        if (row >= rows || Layout::first(i) >= width) continue;
#pragma unroll
        for (int j = 0; j < kPackSize; ++j) {
          const float value = value_at(o[r][i], j);
          squares = fmaf(value, value, squares);
        }
      }
      squares = lane_sum<Layout::kLanes>(squares);
      const float rstd =
          rsqrtf(squares / static_cast<float>(width) + shape.eps);
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        if (row >= rows || Layout::first(i) >= width) continue;
        float weight[kPackSize], out[kPackSize];
        load_floats<kPackSize>(p.weight + Layout::first(i), weight);
#pragma unroll
        for (int j = 0; j < kPackSize; ++j) {
          out[j] = value_at(o[r][i], j) * rstd * weight[j];
          if (gated) {
            out[j] *= activate(shape.activation, value_at(gate[r][i], j)).value;
          }
        }
        store_floats(static_cast<T*>(p.y) + row * width + Layout::first(i),
                     out);
      }
    }
  }
}

template <typename T>
void launch(const GatedNormFwdParams& p, Stream stream) {
  const GatedNormShape& shape = p.shape;
  const std::int64_t stride =
      p.gate_stride != 0 ? p.gate_stride : shape.heads * shape.width;
  const bool packs_fit = is_aligned(p.o, 16) && is_aligned(p.gate, 16) &&
                         is_aligned(p.y, 16) && is_aligned(p.weight, 32) &&
                         stride % kPackOf<T> == 0;
  with_head<T>(shape.width, packs_fit, [&](auto layout) {
    using Layout = decltype(layout);
    gated_norm_fwd_kernel<Layout>
        <<<grid_size(shape.tokens * shape.heads, Layout::kGroups * kRows),
           kThreads, 0, stream>>>(p, stride);
    check_launch("gated_norm_fwd");
  });
}

}  // namespace

const char* gated_norm_fwd_unsupported(const GatedNormFwdParams& p) {
  if (const char* reason = shape_unsupported(p.shape)) return reason;
  if ((p.shape.activation == GateActivation::kNone) != (p.gate == nullptr) &&
      p.shape.tokens > 0) {
    return "gate must be given exactly when there is an activation";
  }
  if (p.gate_stride != 0 && p.gate_stride < p.shape.heads * p.shape.width) {
    return "gate_stride must be 0 or at least heads * width";
  }
  if (p.weight == nullptr ||
      (p.shape.tokens > 0 && (p.o == nullptr || p.y == nullptr))) {
    return "o, weight and y must be given";
  }
  return nullptr;
}

void gated_norm_fwd(const GatedNormFwdParams& p, Stream stream) {
  require_supported("gated_norm_fwd", gated_norm_fwd_unsupported(p));
  if (p.shape.tokens == 0) return;
  if (p.shape.element == Element::kBF16) {
    launch<__nv_bfloat16>(p, stream);
  } else {
    launch<float>(p, stream);
  }
}

}  // namespace osdn::kernels
