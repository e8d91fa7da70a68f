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

/// Taps are counted back from the current token: tap m multiplies x[t-m].
/// MaxW = 4 means exactly 4; MaxW = 8 takes 2..8 and leaves out m >= width.
template <int MaxW>
__device__ __forceinline__ bool has_tap(int m, int width) {
  return MaxW == 4 || m < width;
}

/// The window before token t: window[m] = x[t-1-m], state_in's or zero before
/// `begin`.
template <typename T, int MaxW, int Channels>
__device__ __forceinline__ void load_window(float (&window)[MaxW - 1][Channels],
                                            std::int64_t t, std::int64_t begin,
                                            std::int64_t document, const T* x,
                                            std::int64_t x_stride,
                                            const T* state_in,
                                            std::int64_t channels, int width) {
#pragma unroll
  for (int m = 0; m < MaxW - 1; ++m) {
#pragma unroll
    for (int c = 0; c < Channels; ++c) window[m][c] = 0.0f;
    if (!has_tap<MaxW>(m + 1, width)) continue;
    const std::int64_t from = t - 1 - m;
    if (from >= begin) {
      load_floats<Channels>(x + from * x_stride, window[m]);
    } else if (state_in != nullptr) {
      const std::int64_t slot =
          document * (width - 1) + (width - 1) + (from - begin);
      load_floats<Channels>(state_in + slot * channels, window[m]);
    }
  }
}

/// weight[c, W-1-m] as tap[m][c]; zero where there is no tap.
template <int MaxW, int Channels>
__device__ __forceinline__ void load_taps(float (&tap)[MaxW][Channels],
                                          const float* weight, int width) {
#pragma unroll
  for (int c = 0; c < Channels; ++c) {
#pragma unroll
    for (int m = 0; m < MaxW; ++m) {
      tap[m][c] =
          has_tap<MaxW>(m, width) ? weight[c * width + width - 1 - m] : 0.0f;
    }
  }
}

template <int MaxW, int Channels>
__device__ __forceinline__ void shift_in(float (&window)[MaxW - 1][Channels],
                                         const float (&x)[Channels]) {
#pragma unroll
  for (int m = MaxW - 2; m > 0; --m) {
#pragma unroll
    for (int c = 0; c < Channels; ++c) window[m][c] = window[m - 1][c];
  }
#pragma unroll
  for (int c = 0; c < Channels; ++c) window[0][c] = x[c];
}

template <int MaxW, int Channels>
__device__ __forceinline__ void convolve(
    float (&pre)[Channels], const float (&x)[Channels],
    const float (&window)[MaxW - 1][Channels],
    const float (&tap)[MaxW][Channels], int width) {
#pragma unroll
  for (int c = 0; c < Channels; ++c) pre[c] = 0.0f;
#pragma unroll
  for (int m = MaxW - 1; m > 0; --m) {
    if (!has_tap<MaxW>(m, width)) continue;
#pragma unroll
    for (int c = 0; c < Channels; ++c) {
      pre[c] = fmaf(tap[m][c], window[m - 1][c], pre[c]);
    }
  }
#pragma unroll
  for (int c = 0; c < Channels; ++c) pre[c] = fmaf(tap[0][c], x[c], pre[c]);
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

/// Calls run(type, MaxW, Channels) with the widest access that the sizes and
/// pointers allow (`fits(channels)` says whether packs of so many do).
template <typename T, typename Fits, typename Run>
void with_packs(int width, Fits&& fits, Run&& run) {
  constexpr int kWide = kPackOf<T>;
  if (width == 4 && fits(kWide)) {
    run(std::integral_constant<int, 4>{}, std::integral_constant<int, kWide>{});
  } else if (fits(4)) {
    run(std::integral_constant<int, 8>{}, std::integral_constant<int, 4>{});
  } else {
    run(std::integral_constant<int, 8>{}, std::integral_constant<int, 1>{});
  }
}

}  // namespace osdn::kernels::conv
