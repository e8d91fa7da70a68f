// Forward of the short convolution.

#include "kernels/common/launch_check.cuh"
#include "kernels/short_conv/short_conv_device.cuh"

namespace osdn::kernels {
namespace {

using namespace conv;

/// Tokens that a thread walks.
constexpr int kTile = 64;

template <typename T, int Ring, int Channels>
__global__ void __launch_bounds__(kThreads)
    short_conv_fwd_kernel(const ShortConvFwdParams p, std::int64_t x_stride,
                          std::int64_t y_stride) {
  const ShortConvShape& shape = p.shape;
  const std::int64_t groups = shape.channels / Channels;
  const std::int64_t index =
      static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t first = index / groups * kTile;
  if (first >= shape.tokens) return;
  const std::int64_t channel = index % groups * Channels;
  const std::int64_t stop =
      first + kTile < shape.tokens ? first + kTile : shape.tokens;
  const int width = Ring == 4 ? 4 : shape.width;
  const T* x = static_cast<const T*>(p.x) + channel;
  const T* state_in = p.state_in == nullptr
                          ? nullptr
                          : static_cast<const T*>(p.state_in) + channel;
  T* y = static_cast<T*>(p.y) + channel + first * y_stride;

  std::int64_t document = document_of(first, p.cu_seqlens, shape.documents);
  std::int64_t end = p.cu_seqlens[document + 1];
  float tap[Ring][Channels], ring[Ring][Channels];
  load_taps(tap, p.weight + channel * width, width);
  load_past(ring, 0, first, p.cu_seqlens[document], document, x, x_stride,
            state_in, shape.channels, width);

  const auto token = [&](int i, const Pack<T, Channels>& pack) {
    unpack(pack, ring[i]);
    float out[Channels];
    convolve(out, i, ring, tap, width);
    if (shape.silu) {
#pragma unroll
      for (int c = 0; c < Channels; ++c) out[c] = silu(out[c]);
    }
    store_floats(y, out);
    y += y_stride;
  };

  Pack<T, Channels> ahead[Ring];
  load_batch(ahead, x, first, stop, x_stride);
  for (std::int64_t t0 = first; t0 < stop; t0 += Ring) {
    Pack<T, Channels> batch[Ring];
#pragma unroll
    for (int i = 0; i < Ring; ++i) batch[i] = ahead[i];
    load_batch(ahead, x, t0 + Ring, stop, x_stride);
    if (t0 + Ring <= stop && (t0 + Ring <= end)) {
#pragma unroll
      for (int i = 0; i < Ring; ++i) token(i, batch[i]);
      continue;
    }
    // A batch with a boundary inside, or the last one.
#pragma unroll
    for (int i = 0; i < Ring; ++i) {
      const std::int64_t t = t0 + i;
      if (t >= stop) break;
      if (t == end) {
        document = document_of(t, p.cu_seqlens, shape.documents);
        end = p.cu_seqlens[document + 1];
        load_past(ring, i, t, t, document, x, x_stride, state_in,
                  shape.channels, width);
      }
      token(i, batch[i]);
    }
  }
}

template <typename T>
__global__ void short_conv_state_kernel(const ShortConvFwdParams p,
                                        std::int64_t x_stride,
                                        std::int64_t elements) {
  const std::int64_t channels = p.shape.channels, slots = p.shape.width - 1;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t e =
           static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       e < elements; e += step) {
    const std::int64_t c = e % channels;
    const std::int64_t slot = e / channels % slots;
    const std::int64_t document = e / channels / slots;
    const std::int64_t begin = p.cu_seqlens[document];
    const std::int64_t from = p.cu_seqlens[document + 1] - slots + slot;
    T value = from_float<T>(0.0f);
    if (from >= begin) {
      value = static_cast<const T*>(p.x)[from * x_stride + c];
    } else if (p.state_in != nullptr) {
      value = static_cast<const T*>(
          p.state_in)[(document * slots + slots + (from - begin)) * channels +
                      c];
    }
    static_cast<T*>(p.state_out)[e] = value;
  }
}

template <typename T>
void launch(const ShortConvFwdParams& p, Stream stream) {
  const ShortConvShape& shape = p.shape;
  const std::int64_t x_stride = p.x_stride != 0 ? p.x_stride : shape.channels;
  const std::int64_t y_stride = p.y_stride != 0 ? p.y_stride : shape.channels;
  const auto fits = [&](std::int64_t channels) {
    const auto bytes = static_cast<std::uintptr_t>(channels * sizeof(T));
    return shape.channels % channels == 0 && x_stride % channels == 0 &&
           y_stride % channels == 0 && is_aligned(p.x, bytes) &&
           is_aligned(p.y, bytes) && is_aligned(p.state_in, bytes);
  };
  if (shape.tokens > 0) {
    with_packs<kPackOf<T>, 4>(shape.width, fits, [&](auto ring, auto channels) {
      constexpr int kRing = decltype(ring)::value;
      constexpr int kChannels = decltype(channels)::value;
      const std::int64_t tiles = (shape.tokens + kTile - 1) / kTile;
      short_conv_fwd_kernel<T, kRing, kChannels>
          <<<grid_size(tiles * (shape.channels / kChannels), kThreads),
             kThreads, 0, stream>>>(p, x_stride, y_stride);
      check_launch("short_conv_fwd");
    });
  }
  if (p.state_out != nullptr && shape.documents > 0) {
    const std::int64_t elements =
        shape.documents * (shape.width - 1) * shape.channels;
    short_conv_state_kernel<T>
        <<<grid_size(elements, 256, 1 << 20), 256, 0, stream>>>(p, x_stride,
                                                                elements);
    check_launch("short_conv_fwd: state");
  }
}

}  // namespace

const char* short_conv_fwd_unsupported(const ShortConvFwdParams& p) {
  if (const char* reason = shape_unsupported(p.shape)) return reason;
  if ((p.x_stride != 0 && p.x_stride < p.shape.channels) ||
      (p.y_stride != 0 && p.y_stride < p.shape.channels)) {
    return "x_stride and y_stride must be 0 or at least channels";
  }
  if (p.cu_seqlens == nullptr || p.weight == nullptr) {
    return "cu_seqlens and weight must be given";
  }
  if (p.shape.tokens > 0 && (p.x == nullptr || p.y == nullptr)) {
    return "x and y must be given";
  }
  return nullptr;
}

void short_conv_fwd(const ShortConvFwdParams& p, Stream stream) {
  require_supported("short_conv_fwd", short_conv_fwd_unsupported(p));
  if (p.shape.element == Element::kBF16) {
    launch<__nv_bfloat16>(p, stream);
  } else {
    launch<float>(p, stream);
  }
}

}  // namespace osdn::kernels
