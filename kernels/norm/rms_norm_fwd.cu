// Forward of RMSNorm with the residual's addition: one pass over the rows.

#include "kernels/common/launch_check.cuh"
#include "kernels/norm/rms_norm.cuh"
#include "kernels/norm/rms_norm_device.cuh"

namespace osdn::kernels {
namespace {

using namespace norm;

template <typename T, int PackSize, int RowWarps>
__global__ void __launch_bounds__(kBlockWarps<RowWarps> * 32)
    rms_norm_fwd_kernel(const RmsNormFwdParams p) {
  __shared__ float scratch[RowWarps];
  using Place = RowPlace<T, PackSize, RowWarps>;
  const Place place(p.width);
  const std::int64_t row =
      static_cast<std::int64_t>(blockIdx.x) * kBlockRows<RowWarps> +
      threadIdx.x / (32 * RowWarps);
  if (row >= p.rows) return;
  const std::int64_t at = row * p.width;
  const T* x = static_cast<const T*>(p.x) + at;

  Pack<T, PackSize> packs[Place::kPacks];
#pragma unroll
  for (int i = 0; i < Place::kPacks; ++i) {
    if (place.has(i)) packs[i] = load_pack<T, PackSize>(x + place.first(i));
  }
  if (p.residual != nullptr) {
    const T* residual = static_cast<const T*>(p.residual) + at;
    Pack<T, PackSize> others[Place::kPacks];
#pragma unroll
    for (int i = 0; i < Place::kPacks; ++i) {
      if (place.has(i)) {
        others[i] = load_pack<T, PackSize>(residual + place.first(i));
      }
    }
    T* sum = static_cast<T*>(p.sum) + at;
#pragma unroll
    for (int i = 0; i < Place::kPacks; ++i) {
      if (!place.has(i)) continue;
      float total[PackSize];
#pragma unroll
      for (int j = 0; j < PackSize; ++j) {
        total[j] = value_at(packs[i], j) + value_at(others[i], j);
      }
      packs[i] = pack_floats<T, PackSize>(total);
      *reinterpret_cast<Pack<T, PackSize>*>(sum + place.first(i)) = packs[i];
    }
  }
  float squares = 0.0f;
#pragma unroll
  for (int i = 0; i < Place::kPacks; ++i) {
    if (!place.has(i)) continue;
#pragma unroll
    for (int j = 0; j < PackSize; ++j) {
      const float value = value_at(packs[i], j);
      squares = fmaf(value, value, squares);
    }
  }
  squares = row_sum<RowWarps>(squares, scratch);
  const float rstd = rsqrtf(squares / static_cast<float>(place.width) + p.eps);
  T* y = static_cast<T*>(p.y) + at;
#pragma unroll
  for (int i = 0; i < Place::kPacks; ++i) {
    if (!place.has(i)) continue;
    float weight[PackSize], out[PackSize];
    load_floats<PackSize>(p.weight + place.first(i), weight);
#pragma unroll
    for (int j = 0; j < PackSize; ++j) {
      out[j] = value_at(packs[i], j) * rstd * weight[j];
    }
    store_floats(y + place.first(i), out);
  }
}

template <typename T>
void launch(const RmsNormFwdParams& p, Stream stream) {
  const bool packs_fit = is_aligned(p.x, 16) && is_aligned(p.residual, 16) &&
                         is_aligned(p.sum, 16) && is_aligned(p.y, 16) &&
                         is_aligned(p.weight, 32);
  with_row<T>(p.width, packs_fit, [&](auto pack_size, auto row_warps) {
    constexpr int kPackSize = decltype(pack_size)::value;
    constexpr int kRowWarps = decltype(row_warps)::value;
    rms_norm_fwd_kernel<T, kPackSize, kRowWarps>
        <<<grid_size(p.rows, kBlockRows<kRowWarps>),
           kBlockWarps<kRowWarps> * 32, 0, stream>>>(p);
    check_launch("rms_norm_fwd");
  });
}

}  // namespace

const char* rms_norm_fwd_unsupported(const RmsNormFwdParams& p) {
  if (p.rows < 0 || p.width < 1 || p.width > kMaxWidth) {
    return "rows must not be negative, width must be 1 to 16384";
  }
  if ((p.residual == nullptr) != (p.sum == nullptr)) {
    return "sum must be given exactly when residual is";
  }
  if (p.weight == nullptr ||
      (p.rows > 0 && (p.x == nullptr || p.y == nullptr))) {
    return "x, weight and y must be given";
  }
  return nullptr;
}

void rms_norm_fwd(const RmsNormFwdParams& p, Stream stream) {
  require_supported("rms_norm_fwd", rms_norm_fwd_unsupported(p));
  if (p.rows == 0) return;
  if (p.element == Element::kBF16) {
    launch<__nv_bfloat16>(p, stream);
  } else {
    launch<float>(p, stream);
  }
}

}  // namespace osdn::kernels
