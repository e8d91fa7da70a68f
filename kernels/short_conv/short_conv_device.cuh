#pragma once
// What the two directions of the short convolution share. A thread owns a few
// neighbouring channels and walks a tile of tokens with the last inputs in
// registers, so each input is read once (plus W-1 rows a tile).

#include <cstdint>
#include <type_traits>

#include "kernels/common/activation.cuh"
#include "kernels/common/documents.cuh"
#include "kernels/common/vector_io.cuh"
#include "kernels/short_conv/short_conv.cuh"

namespace osdn::kernels::conv {

inline constexpr int kThreads = 128;

/// Tokens are walked Ring at a time, and token i of such a batch lives in slot
/// i of every ring: the input x[t-m] is in slot (i - m) mod Ring, without
/// moving anything. Ring = 4 means a width of exactly 4; Ring = 8 takes 2..8
/// and leaves out taps m >= width. Taps are counted back from the current
/// token: tap m multiplies x[t-m].
template <int Ring>
__device__ __forceinline__ constexpr int slot(int i, int m) {
  return (i - m + Ring) % Ring;
}

template <int Ring>
__device__ __forceinline__ bool has_tap(int m, int width) {
  return Ring == 4 || m < width;
}

/// The inputs before token t, which is token i of its batch: state_in's or
/// zeros before `begin`.
template <typename T, int Ring, int Channels>
__device__ __forceinline__ void load_past(float (&ring)[Ring][Channels], int i,
                                          std::int64_t t, std::int64_t begin,
                                          std::int64_t document, const T* x,
                                          std::int64_t x_stride,
                                          const T* state_in,
                                          std::int64_t channels, int width) {
#pragma unroll
  for (int m = 1; m < Ring; ++m) {
    float(&past)[Channels] = ring[slot<Ring>(i, m)];
#pragma unroll
    for (int c = 0; c < Channels; ++c) past[c] = 0.0f;
    if (!has_tap<Ring>(m, width)) continue;
    const std::int64_t from = t - m;
    if (from >= begin) {
      load_floats<Channels>(x + from * x_stride, past);
    } else if (state_in != nullptr) {
      const std::int64_t row =
          document * (width - 1) + (width - 1) + (from - begin);
      load_floats<Channels>(state_in + row * channels, past);
    }
  }
}

/// weight[c, W-1-m] as tap[m][c]; zero where there is no tap.
template <int Ring, int Channels>
__device__ __forceinline__ void load_taps(float (&tap)[Ring][Channels],
                                          const float* weight, int width) {
#pragma unroll
  for (int c = 0; c < Channels; ++c) {
#pragma unroll
    for (int m = 0; m < Ring; ++m) {
      tap[m][c] =
          has_tap<Ring>(m, width) ? weight[c * width + width - 1 - m] : 0.0f;
    }
  }
}

/// The pre-activation of token i of the batch, oldest tap first.
template <int Ring, int Channels>
__device__ __forceinline__ void convolve(float (&pre)[Channels], int i,
                                         const float (&ring)[Ring][Channels],
                                         const float (&tap)[Ring][Channels],
                                         int width) {
#pragma unroll
  for (int c = 0; c < Channels; ++c) pre[c] = 0.0f;
#pragma unroll
  for (int m = Ring - 1; m >= 0; --m) {
    if (!has_tap<Ring>(m, width)) continue;
#pragma unroll
    for (int c = 0; c < Channels; ++c) {
      pre[c] = fmaf(tap[m][c], ring[slot<Ring>(i, m)][c], pre[c]);
    }
  }
}

/// Loads the rows first .. first + Ring that lie before `stop`.
template <int Ring, int Channels, typename T>
__device__ __forceinline__ void load_batch(Pack<T, Channels> (&batch)[Ring],
                                           const T* rows, std::int64_t first,
                                           std::int64_t stop,
                                           std::int64_t stride) {
  const T* from = rows + first * stride;
#pragma unroll
  for (int i = 0; i < Ring; ++i) {
    if (first + i < stop) batch[i] = load_pack<T, Channels>(from);
    from += stride;
  }
}

inline const char* shape_unsupported(const ShortConvShape& shape) {
  if (shape.tokens < 0 || shape.documents < 0 || shape.channels < 1) {
    return "tokens and documents must not be negative, channels at least 1";
  }
  if (shape.width < 2 || shape.width > 8) return "width must be 2 to 8";
  if (shape.tokens > 0 && shape.documents == 0) {
    return "tokens without documents";
  }
  return nullptr;
}

/// Calls run(Ring, Channels) with packs of Wide4 channels at a width of 4, of
/// Wide8 at other widths, or single channels where `fits(channels)` says that
/// sizes and pointers allow no packs.
template <int Wide4, int Wide8, typename Fits, typename Run>
void with_packs(int width, Fits&& fits, Run&& run) {
  if (width == 4 && fits(Wide4)) {
    run(std::integral_constant<int, 4>{}, std::integral_constant<int, Wide4>{});
  } else if (fits(Wide8)) {
    run(std::integral_constant<int, 8>{}, std::integral_constant<int, Wide8>{});
  } else {
    run(std::integral_constant<int, 8>{}, std::integral_constant<int, 1>{});
  }
}

}  // namespace osdn::kernels::conv
