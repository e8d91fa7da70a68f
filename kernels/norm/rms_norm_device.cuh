#pragma once
// Rows in registers: RowWarps warps hold one row, 32 elements a lane at most.

#include <cstdint>
#include <type_traits>

#include "kernels/common/reduce.cuh"
#include "kernels/common/vector_io.cuh"

namespace osdn::kernels::norm {

inline constexpr int kLaneElements = 32;
inline constexpr std::int64_t kMaxWidth = 16 * 32 * kLaneElements;

/// Short rows share a block, one a warp; a long row has the block to itself.
template <int RowWarps>
inline constexpr int kBlockWarps = RowWarps == 1 ? 8 : RowWarps;
template <int RowWarps>
inline constexpr int kBlockRows = kBlockWarps<RowWarps> / RowWarps;

/// A lane's packs of a row of `width` elements: pack i starts at first(i).
template <typename T, int PackSize, int RowWarps>
struct RowPlace {
  static constexpr int kPacks = kLaneElements / PackSize;
  int thread, width;
  __device__ RowPlace(std::int64_t row_width)
      : thread(static_cast<int>(threadIdx.x) % (32 * RowWarps)),
        width(static_cast<int>(row_width)) {}
  __device__ int first(int i) const {
    return (i * 32 * RowWarps + thread) * PackSize;
  }
  __device__ bool has(int i) const { return first(i) < width; }
};

template <int RowWarps>
__device__ __forceinline__ float row_sum(float x, float* scratch) {
  if constexpr (RowWarps == 1) {
    return lane_sum(x);
  } else {
    return block_sum<RowWarps>(x, scratch);
  }
}

/// Calls run(PackSize, RowWarps) with the fewest warps that hold a row.
template <typename T, typename Run>
void with_row(std::int64_t width, bool packs_fit, Run&& run) {
  constexpr int kPack = kPackOf<T>;
  if (!packs_fit || width % kPack != 0) {
    run(std::integral_constant<int, 1>{}, std::integral_constant<int, 16>{});
  } else if (width <= 32 * kLaneElements) {
    run(std::integral_constant<int, kPack>{}, std::integral_constant<int, 1>{});
  } else if (width <= 4 * 32 * kLaneElements) {
    run(std::integral_constant<int, kPack>{}, std::integral_constant<int, 4>{});
  } else {
    run(std::integral_constant<int, kPack>{},
        std::integral_constant<int, 16>{});
  }
}

}  // namespace osdn::kernels::norm
