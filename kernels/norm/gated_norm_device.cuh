#pragma once
// A head's row lies in a group of Lanes lanes, Packs packs a lane, so that
// narrow heads still move 16 bytes an access.

#include <cstdint>
#include <type_traits>

#include "kernels/common/activation.cuh"
#include "kernels/common/reduce.cuh"
#include "kernels/common/vector_io.cuh"
#include "kernels/norm/gated_norm.cuh"

namespace osdn::kernels::norm {

inline constexpr int kThreads = 256;
inline constexpr std::int64_t kMaxHeadWidth = 512;

template <typename T, int PackSize_, int Lanes_, int Packs_>
struct HeadLayout {
  using Element = T;
  static constexpr int kPackSize = PackSize_;
  static constexpr int kLanes = Lanes_;
  static constexpr int kPacks = Packs_;
  static constexpr int kGroups = kThreads / kLanes;  ///< of a block
  __device__ static int first(int i) {
    return (i * kLanes + static_cast<int>(threadIdx.x) % kLanes) * kPackSize;
  }
  __device__ static int group() {
    return static_cast<int>(threadIdx.x) / kLanes;
  }
};

/// Offset of row = token * heads + head where tokens are `stride` apart.
__device__ __forceinline__ std::int64_t strided_row(std::int64_t row,
                                                    std::int64_t heads,
                                                    std::int64_t width,
                                                    std::int64_t stride) {
  if (stride == heads * width) return row * width;
  return row / heads * stride + row % heads * width;
}

template <typename T, typename Run>
void with_head(std::int64_t width, bool packs_fit, Run&& run) {
  constexpr int kPack = kPackOf<T>;
  constexpr bool kWide = kPack == 8;
  if (!packs_fit || width % kPack != 0) {
    run(HeadLayout<T, 1, 32, 16>{});
  } else if (width <= 64) {
    run(HeadLayout < T, kPack, kWide ? 8 : 16, 1 > {});
  } else if (width <= 128) {
    run(HeadLayout < T, kPack, kWide ? 16 : 32, 1 > {});
  } else if (width <= 256) {
    run(HeadLayout < T, kPack, 32, kWide ? 1 : 2 > {});
  } else {
    run(HeadLayout < T, kPack, 32, kWide ? 2 : 4 > {});
  }
}

/// Factor on the normalised row, and its slope in the gate.
struct Activated {
  float value, slope;
};
__device__ __forceinline__ Activated activate(GateActivation activation,
                                              float gate) {
  const float s = sigmoid(gate);
  if (activation == GateActivation::kSilu) {
    return {gate * s, silu_slope(gate, s)};
  }
  return {s, s * (1.0f - s)};
}

inline const char* shape_unsupported(const GatedNormShape& shape) {
  if (shape.tokens < 0 || shape.heads < 1) {
    return "tokens must not be negative, heads at least 1";
  }
  if (shape.width < 1 || shape.width > kMaxHeadWidth) {
    return "width must be 1 to 512";
  }
  return nullptr;
}

}  // namespace osdn::kernels::norm
