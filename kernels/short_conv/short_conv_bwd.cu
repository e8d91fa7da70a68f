// Backward of the short convolution. A thread walks its tile forward: it
// forms the pre-activation again, turns grad_y into g = dL/dpre and scatters g
// into the gradients of the W inputs that it came from, which wait in
// registers until their last contribution. The gradient of the weights is
// summed per tile, then over tiles in their order.

#include "kernels/common/column_sum.cuh"
#include "kernels/common/launch_check.cuh"
#include "kernels/short_conv/short_conv_device.cuh"

namespace osdn::kernels {
namespace {

using namespace conv;

/// Tiles grow with the number of tokens, so that the partials stay small
/// beside x; they depend on the shape alone.
constexpr std::int64_t kMinTile = 64;
constexpr std::int64_t kMaxTiles = 512;

std::int64_t tile_of(std::int64_t tokens) {
  const std::int64_t tile = (tokens + kMaxTiles - 1) / kMaxTiles;
  return tile < kMinTile ? kMinTile : tile;
}

std::int64_t tiles_of(std::int64_t tokens) {
  return (tokens + tile_of(tokens) - 1) / tile_of(tokens);
}

template <typename T, int Ring, int Channels>
__global__ void __launch_bounds__(kThreads, Ring == 4 ? 3 : 2)
    short_conv_bwd_kernel(const ShortConvBwdParams p, std::int64_t x_stride,
                          std::int64_t grad_y_stride,
                          std::int64_t grad_x_stride, std::int64_t tile) {
  const ShortConvShape& shape = p.shape;
  const std::int64_t groups = shape.channels / Channels;
  const std::int64_t index =
      static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t first = index / groups * tile;
  if (first >= shape.tokens) return;
  const std::int64_t channel = index % groups * Channels;
  const std::int64_t own_stop =
      first + tile < shape.tokens ? first + tile : shape.tokens;
  const int width = Ring == 4 ? 4 : shape.width;
  const T* x = static_cast<const T*>(p.x) + channel;
  const T* grad_y = static_cast<const T*>(p.grad_y) + channel;
  const auto offset_or_null = [&](const void* base) {
    return base == nullptr ? nullptr : static_cast<const T*>(base) + channel;
  };
  const T* state_in = offset_or_null(p.state_in);
  const T* grad_state_out = offset_or_null(p.grad_state_out);
  T* grad_x = static_cast<T*>(p.grad_x) + channel;
  T* grad_state_in = const_cast<T*>(offset_or_null(p.grad_state_in));

  std::int64_t document = document_of(first, p.cu_seqlens, shape.documents);
  std::int64_t begin = p.cu_seqlens[document];
  std::int64_t end = p.cu_seqlens[document + 1];
  // Tokens behind the tile that its last inputs still reach.
  const std::int64_t last_end =
      p.cu_seqlens[document_of(own_stop - 1, p.cu_seqlens, shape.documents) +
                   1];
  const std::int64_t stop =
      own_stop + width - 1 < last_end ? own_stop + width - 1 : last_end;

  float tap[Ring][Channels], ring[Ring][Channels];
  float grad_tap[Ring][Channels] = {};
  float waiting[Ring][Channels] = {};  ///< gradients of the last inputs
  load_taps(tap, p.weight + channel * width, width);
  load_past(ring, 0, first, begin, document, x, x_stride, state_in,
            shape.channels, width);

  // The gradient of the input at `at`, which lies before the document's begin
  // for its initial state.
  const auto emit = [&](std::int64_t at, const float(&value)[Channels]) {
    if (at >= begin) {
      if (at >= first && at < own_stop) {
        store_floats(grad_x + at * grad_x_stride, value);
      }
    } else if (grad_state_in != nullptr && begin >= first && begin < own_stop) {
      const std::int64_t slot =
          document * (width - 1) + (width - 1) + (at - begin);
      if (at >= begin - (width - 1)) {
        store_floats(grad_state_in + slot * shape.channels, value);
      }
    }
  };

  // Token i of a batch: its pre-activation's gradient goes to the taps and to
  // the inputs that it came from.
  const auto scatter = [&](int i, bool own, const Pack<T, Channels>& x_pack,
                           const Pack<T, Channels>& grad_pack) {
    float grad[Channels];
    unpack(x_pack, ring[i]);
    unpack(grad_pack, grad);
    if (shape.silu) {
      float pre[Channels];
      convolve(pre, i, ring, tap, width);
#pragma unroll
      for (int c = 0; c < Channels; ++c) {
        grad[c] *= silu_slope(pre[c], sigmoid(pre[c]));
      }
    }
#pragma unroll
    for (int c = 0; c < Channels; ++c) waiting[i][c] = tap[0][c] * grad[c];
#pragma unroll
    for (int m = 1; m < Ring; ++m) {
      if (!has_tap<Ring>(m, width)) continue;
#pragma unroll
      for (int c = 0; c < Channels; ++c) {
        float& to = waiting[slot<Ring>(i, m)][c];
        to = fmaf(tap[m][c], grad[c], to);
      }
    }
    if (!own) return;
#pragma unroll
    for (int m = 0; m < Ring; ++m) {
      if (!has_tap<Ring>(m, width)) continue;
#pragma unroll
      for (int c = 0; c < Channels; ++c) {
        grad_tap[m][c] =
            fmaf(grad[c], ring[slot<Ring>(i, m)][c], grad_tap[m][c]);
      }
    }
  };
  // The input W-1 tokens back, which token i was the last to reach. Chosen by
  // value: an index would put `waiting` in local memory.
  const auto completed = [&](int i, float(&done)[Channels]) {
#pragma unroll
    for (int c = 0; c < Channels; ++c) {
      done[c] = waiting[slot<Ring>(i, Ring - 1)][c];
      if constexpr (Ring != 4) {
#pragma unroll
        for (int m = 1; m < Ring - 1; ++m) {
          done[c] = m == width - 1 ? waiting[slot<Ring>(i, m)][c] : done[c];
        }
      }
    }
  };

  Pack<T, Channels> x_ahead[Ring], grad_ahead[Ring];
  load_batch(x_ahead, x, first, stop, x_stride);
  load_batch(grad_ahead, grad_y, first, stop, grad_y_stride);
  for (std::int64_t t0 = first; t0 < stop; t0 += Ring) {
    Pack<T, Channels> x_batch[Ring], grad_batch[Ring];
#pragma unroll
    for (int i = 0; i < Ring; ++i) {
      x_batch[i] = x_ahead[i];
      grad_batch[i] = grad_ahead[i];
    }
    load_batch(x_ahead, x, t0 + Ring, stop, x_stride);
    load_batch(grad_ahead, grad_y, t0 + Ring, stop, grad_y_stride);
    // Inside the tile and a document, all that is completed is the tile's.
    if (t0 + Ring <= own_stop && t0 + Ring < end && t0 - Ring >= first &&
        t0 - Ring >= begin) {
      T* to = grad_x + (t0 - (width - 1)) * grad_x_stride;
#pragma unroll
      for (int i = 0; i < Ring; ++i) {
        scatter(i, true, x_batch[i], grad_batch[i]);
        float done[Channels];
        completed(i, done);
        store_floats(to, done);
        to += grad_x_stride;
      }
      continue;
    }
#pragma unroll
    for (int i = 0; i < Ring; ++i) {
      const std::int64_t t = t0 + i;
      if (t >= stop) break;
      if (t == end) {
        document = document_of(t, p.cu_seqlens, shape.documents);
        begin = t;
        end = p.cu_seqlens[document + 1];
        load_past(ring, i, t, t, document, x, x_stride, state_in,
                  shape.channels, width);
      }
      scatter(i, t < own_stop, x_batch[i], grad_batch[i]);
      float done[Channels];
      completed(i, done);
      emit(t - (width - 1), done);
      if (t + 1 == end) {
        // Nothing later adds to the last W-1 inputs but the final state.
#pragma unroll
        for (int m = 0; m < Ring - 1; ++m) {
          if (!has_tap<Ring>(m + 1, width)) continue;
          float(&last)[Channels] = waiting[slot<Ring>(i, m)];
          if (grad_state_out != nullptr) {
            float from_state[Channels];
            load_floats<Channels>(
                grad_state_out +
                    (document * (width - 1) + width - 2 - m) * shape.channels,
                from_state);
#pragma unroll
            for (int c = 0; c < Channels; ++c) last[c] += from_state[c];
          }
          emit(t - m, last);
        }
#pragma unroll
        for (int m = 0; m < Ring; ++m) {
#pragma unroll
          for (int c = 0; c < Channels; ++c) waiting[m][c] = 0.0f;
        }
      }
    }
  }

  float* partial = static_cast<float*>(p.workspace) +
                   first / tile * width * shape.channels + channel;
#pragma unroll
  for (int m = 0; m < Ring; ++m) {
    if (!has_tap<Ring>(m, width)) continue;
#pragma unroll
    for (int c = 0; c < Channels; ++c) {
      partial[(width - 1 - m) * shape.channels + c] = grad_tap[m][c];
    }
  }
}

/// An empty document hands the gradient of its final state on.
template <typename T>
__global__ void empty_documents_kernel(const ShortConvBwdParams p,
                                       std::int64_t elements) {
  const std::int64_t per_document = (p.shape.width - 1) * p.shape.channels;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t e =
           static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       e < elements; e += step) {
    const std::int64_t document = e / per_document;
    if (p.cu_seqlens[document] != p.cu_seqlens[document + 1]) continue;
    static_cast<T*>(p.grad_state_in)[e] =
        p.grad_state_out == nullptr
            ? from_float<T>(0.0f)
            : static_cast<const T*>(p.grad_state_out)[e];
  }
}

template <typename T>
void launch(const ShortConvBwdParams& p, Stream stream) {
  const ShortConvShape& shape = p.shape;
  const auto stride_or = [&](std::int64_t stride) {
    return stride != 0 ? stride : shape.channels;
  };
  const std::int64_t x_stride = stride_or(p.x_stride);
  const std::int64_t grad_y_stride = stride_or(p.grad_y_stride);
  const std::int64_t grad_x_stride = stride_or(p.grad_x_stride);
  const auto fits = [&](std::int64_t channels) {
    const auto bytes = static_cast<std::uintptr_t>(channels * sizeof(T));
    return shape.channels % channels == 0 && x_stride % channels == 0 &&
           grad_y_stride % channels == 0 && grad_x_stride % channels == 0 &&
           is_aligned(p.x, bytes) && is_aligned(p.grad_y, bytes) &&
           is_aligned(p.grad_x, bytes) && is_aligned(p.state_in, bytes) &&
           is_aligned(p.grad_state_out, bytes) &&
           is_aligned(p.grad_state_in, bytes);
  };
  const std::int64_t tiles = tiles_of(shape.tokens);
  if (shape.tokens > 0) {
    // Narrower packs than forward: taps, their gradients and two rings must
    // stay in registers.
    with_packs<4, 2>(shape.width, fits, [&](auto ring, auto channels) {
      constexpr int kRing = decltype(ring)::value;
      constexpr int kChannels = decltype(channels)::value;
      short_conv_bwd_kernel<T, kRing, kChannels>
          <<<grid_size(tiles * (shape.channels / kChannels), kThreads),
             kThreads, 0, stream>>>(p, x_stride, grad_y_stride, grad_x_stride,
                                    tile_of(shape.tokens));
      check_launch("short_conv_bwd");
    });
  }
  column_sum("short_conv_bwd: sum over tiles",
             static_cast<const float*>(p.workspace), tiles,
             shape.width * shape.channels, p.grad_weight, stream,
             TransposedColumn{shape.width, shape.channels});
  if (p.grad_state_in != nullptr && shape.documents > 0) {
    const std::int64_t elements =
        shape.documents * (shape.width - 1) * shape.channels;
    empty_documents_kernel<T>
        <<<grid_size(elements, 256, 1 << 20), 256, 0, stream>>>(p, elements);
    check_launch("short_conv_bwd: empty documents");
  }
}

}  // namespace

std::int64_t short_conv_bwd_workspace_bytes(const ShortConvBwdParams& p) {
  return tiles_of(p.shape.tokens) * p.shape.width * p.shape.channels * 4;
}

const char* short_conv_bwd_unsupported(const ShortConvBwdParams& p) {
  if (const char* reason = shape_unsupported(p.shape)) return reason;
  for (const std::int64_t stride :
       {p.x_stride, p.grad_y_stride, p.grad_x_stride}) {
    if (stride != 0 && stride < p.shape.channels) {
      return "row strides must be 0 or at least channels";
    }
  }
  if (p.cu_seqlens == nullptr || p.weight == nullptr ||
      p.grad_weight == nullptr) {
    return "cu_seqlens, weight and grad_weight must be given";
  }
  if (p.shape.tokens > 0 && (p.x == nullptr || p.grad_y == nullptr ||
                             p.grad_x == nullptr || p.workspace == nullptr)) {
    return "x, grad_y, grad_x and workspace must be given";
  }
  return nullptr;
}

void short_conv_bwd(const ShortConvBwdParams& p, Stream stream) {
  require_supported("short_conv_bwd", short_conv_bwd_unsupported(p));
  if (p.shape.element == Element::kBF16) {
    launch<__nv_bfloat16>(p, stream);
  } else {
    launch<float>(p, stream);
  }
}

}  // namespace osdn::kernels
