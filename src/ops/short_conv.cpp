#include "osdn/ops/short_conv.h"

#include <ATen/Dispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "decay_block.h"
#include "differentiable.h"
#include "osdn/core/error.h"
#include "parallel_tasks.h"
#include "short_conv_cuda.h"
#include "tensor_check.h"

namespace osdn::ops {
namespace {

constexpr const char* kName = "short_conv";
constexpr std::int64_t kChannels = 64;  // of one task
constexpr std::int64_t kMaxTaps = 8;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// sum += x * y; the three do not overlap.
template <typename T>
void add_product(std::int64_t n, const T* __restrict__ x,
                 const T* __restrict__ y, T* __restrict__ sum) {
  for (std::int64_t c = 0; c < n; ++c) sum[c] += x[c] * y[c];
}

/// One block of channels, all documents and tokens: sums over tokens stay in
/// one thread, in order.
template <typename T>
struct ChannelBlock {
  std::int64_t C, W, c0, width;
  const T* x;
  const T* weight;  // [C, W]
  const T* state0;  // [N, C, W-1] or null
  bool silu;

  std::vector<T> taps = std::vector<T>(at(kMaxTaps * kChannels));
  std::vector<T> start = std::vector<T>(at(kMaxTaps * kChannels));
  std::vector<T> gate = std::vector<T>(at(kChannels));

  void load_taps() {
    for (std::int64_t j = 0; j < W; ++j) {
      for (std::int64_t c = 0; c < width; ++c) {
        taps[at(j * kChannels + c)] = weight[(c0 + c) * W + j];
      }
    }
  }
  /// Inputs before document n's first token: row j is token begin - (W-1) + j.
  void load_start(std::int64_t n) {
    for (std::int64_t j = 0; j < W - 1; ++j) {
      for (std::int64_t c = 0; c < width; ++c) {
        start[at(j * kChannels + c)] =
            state0 ? state0[(n * C + c0 + c) * (W - 1) + j] : T(0);
      }
    }
  }
  const T* input(std::int64_t t, std::int64_t begin) const {
    return t >= begin ? x + t * C + c0
                      : start.data() + (t - begin + W - 1) * kChannels;
  }
  void convolve(std::int64_t t, std::int64_t begin, T* out) const {
    std::fill(out, out + width, T(0));
    for (std::int64_t j = 0; j < W; ++j) {
      add_product(width, taps.data() + j * kChannels,
                  input(t - W + 1 + j, begin), out);
    }
  }
  /// SiLU's factor of each channel.
  const T* sigmoid(const T* z) {
    for (std::int64_t c = 0; c < width; ++c) gate[at(c)] = -z[c];
    exp_all(width, gate.data(), gate.data());
    for (std::int64_t c = 0; c < width; ++c) {
      gate[at(c)] = T(1) / (T(1) + gate[at(c)]);
    }
    return gate.data();
  }
};

template <typename T>
void forward_block(ChannelBlock<T>& block, const Documents& documents, T* y,
                   T* state_T) {
  const std::int64_t C = block.C, W = block.W;
  block.load_taps();
  for (std::int64_t n = 0; n < documents.count(); ++n) {
    const std::int64_t begin = documents.begin(n), end = documents.end(n);
    block.load_start(n);
    for (std::int64_t t = begin; t < end; ++t) {
      T* out = y + t * C + block.c0;
      block.convolve(t, begin, out);
      if (block.silu) {
        const T* gate = block.sigmoid(out);
        for (std::int64_t c = 0; c < block.width; ++c) out[c] *= gate[c];
      }
    }
    for (std::int64_t j = 0; j < W - 1; ++j) {
      const T* in = block.input(end - (W - 1) + j, begin);
      for (std::int64_t c = 0; c < block.width; ++c) {
        state_T[(n * C + block.c0 + c) * (W - 1) + j] = in[c];
      }
    }
  }
}

template <typename T>
void backward_block(ChannelBlock<T>& block, const Documents& documents,
                    const T* grad_y, const T* grad_state_T, T* grad_x,
                    T* grad_weight, T* grad_state0) {
  const std::int64_t C = block.C, W = block.W, width = block.width;
  block.load_taps();
  std::vector<T> grad_taps(at(W * kChannels), T(0));
  std::vector<T> grad_start(at(W * kChannels));
  std::vector<T> g(at(kChannels));
  for (std::int64_t n = 0; n < documents.count(); ++n) {
    const std::int64_t begin = documents.begin(n), end = documents.end(n);
    block.load_start(n);
    std::fill(grad_start.begin(), grad_start.end(), T(0));
    const auto grad_input = [&](std::int64_t t) {
      return t >= begin ? grad_x + t * C + block.c0
                        : grad_start.data() + (t - begin + W - 1) * kChannels;
    };
    for (std::int64_t t = begin; t < end; ++t) {
      T* to = grad_x + t * C + block.c0;
      std::fill(to, to + width, T(0));
    }
    if (grad_state_T) {
      for (std::int64_t j = 0; j < W - 1; ++j) {
        T* to = grad_input(end - (W - 1) + j);
        for (std::int64_t c = 0; c < width; ++c) {
          to[c] += grad_state_T[(n * C + block.c0 + c) * (W - 1) + j];
        }
      }
    }
    for (std::int64_t t = begin; t < end; ++t) {
      const T* upstream = grad_y + t * C + block.c0;
      if (block.silu) {
        block.convolve(t, begin, g.data());
        const T* gate = block.sigmoid(g.data());
        for (std::int64_t c = 0; c < width; ++c) {
          const T z = g[at(c)];
          g[at(c)] = upstream[c] * gate[c] * (T(1) + z * (T(1) - gate[c]));
        }
      } else {
        std::copy(upstream, upstream + width, g.begin());
      }
      for (std::int64_t j = 0; j < W; ++j) {
        add_product(width, block.taps.data() + j * kChannels, g.data(),
                    grad_input(t - W + 1 + j));
        add_product(width, block.input(t - W + 1 + j, begin), g.data(),
                    grad_taps.data() + j * kChannels);
      }
    }
    if (grad_state0) {
      for (std::int64_t j = 0; j < W - 1; ++j) {
        for (std::int64_t c = 0; c < width; ++c) {
          grad_state0[(n * C + block.c0 + c) * (W - 1) + j] =
              grad_start[at(j * kChannels + c)];
        }
      }
    }
  }
  for (std::int64_t j = 0; j < W; ++j) {
    for (std::int64_t c = 0; c < width; ++c) {
      grad_weight[(block.c0 + c) * W + j] = grad_taps[at(j * kChannels + c)];
    }
  }
}

void check_inputs(const ShortConvInputs& in, const Documents& documents) {
  if (!in.x.defined() || in.x.dim() != 2 || !in.weight.defined() ||
      in.weight.dim() != 3) {
    throw Error("short_conv: x [T, C] and weight [C, 1, W] are needed");
  }
  check_computable(kName, in.x);
  const std::int64_t C = in.x.size(1);
  const std::int64_t W = in.weight.size(2);
  if (W < 1 || W > kMaxTaps) {
    throw Error("short_conv: weight has " + std::to_string(W) + " taps; 1 to " +
                std::to_string(kMaxTaps) + " are supported");
  }
  check_control(kName, "weight", in.weight, {C, 1, W}, in.x);
  if (in.state0.defined()) {
    check_tensor(kName, "state0", in.state0, {documents.count(), C, W - 1},
                 in.x);
  }
  if (documents.tokens() != in.x.size(0)) {
    throw Error("short_conv: cu_seqlens ends at " +
                std::to_string(documents.tokens()) + ", x has " +
                std::to_string(in.x.size(0)) + " tokens");
  }
}

template <typename T, typename Run>
void for_each_block(const ShortConvInputs& in, bool silu, const Run& run) {
  const std::int64_t C = in.x.size(1);
  parallel_tasks((C + kChannels - 1) / kChannels,
                 [&] {
                   return ChannelBlock<T>{C,
                                          in.weight.size(2),
                                          0,
                                          0,
                                          in.x.data_ptr<T>(),
                                          in.weight.data_ptr<T>(),
                                          data_or_null<T>(in.state0),
                                          silu};
                 },
                 [&](ChannelBlock<T>& block, std::int64_t task) {
                   block.c0 = task * kChannels;
                   block.width = std::min(kChannels, C - block.c0);
                   run(block);
                 });
}

/// saved: x, weight, state0.
Tensors short_conv_backward(const BackwardCall& call,
                            const Documents& documents, bool silu) {
  const ShortConvInputs in{call.saved[0], call.saved[1], call.saved[2]};
  const at::Tensor grad_y = call.grad_outputs[0].defined()
                                ? call.grad_outputs[0].contiguous()
                                : at::zeros_like(in.x);
  const at::Tensor grad_state_T = contiguous(call.grad_outputs[1]);
  const at::Tensor grad_x = at::empty_like(in.x);
  const at::Tensor grad_weight = at::empty_like(in.weight);
  const at::Tensor grad_state0 =
      in.state0.defined() ? at::empty_like(in.state0) : at::Tensor();
  AT_DISPATCH_FLOATING_TYPES(in.x.scalar_type(), kName, [&] {
    for_each_block<scalar_t>(in, silu, [&](ChannelBlock<scalar_t>& block) {
      backward_block(block, documents, grad_y.data_ptr<scalar_t>(),
                     data_or_null<scalar_t>(grad_state_T),
                     grad_x.data_ptr<scalar_t>(),
                     grad_weight.data_ptr<scalar_t>(),
                     data_or_null<scalar_t>(grad_state0));
    });
  });
  return {grad_x, grad_weight, grad_state0};
}

ForwardResult short_conv_forward(const ShortConvInputs& given,
                                 const Documents& documents, bool silu) {
  const ShortConvInputs in{given.x.contiguous(), given.weight.contiguous(),
                           contiguous(given.state0)};
  const at::Tensor y = at::empty_like(in.x);
  const at::Tensor state_T = at::empty(
      {documents.count(), in.x.size(1), in.weight.size(2) - 1}, in.x.options());
  AT_DISPATCH_FLOATING_TYPES(y.scalar_type(), kName, [&] {
    for_each_block<scalar_t>(in, silu, [&](ChannelBlock<scalar_t>& block) {
      forward_block(block, documents, y.data_ptr<scalar_t>(),
                    state_T.data_ptr<scalar_t>());
    });
  });
  return {{y, state_T},
          {in.x, in.weight, in.state0},
          [documents, silu](const BackwardCall& call) {
            return short_conv_backward(call, documents, silu);
          }};
}

}  // namespace

ShortConvOutput short_conv(const ShortConvInputs& inputs,
                           const Documents& documents, bool silu) {
  check_inputs(inputs, documents);
  if (inputs.x.is_cuda()) return short_conv_cuda(inputs, documents, silu);
  const Tensors out = differentiable(
      {inputs.x, inputs.weight, inputs.state0},
      [&] { return short_conv_forward(inputs, documents, silu); });
  return {out[0], out[1]};
}

}  // namespace osdn::ops
