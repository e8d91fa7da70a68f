#pragma once
// Short causal depthwise convolution over packed documents, with or without
// SiLU (docs/kernels/short_conv.md):
//
//   pre[t,c] = sum_{j<W} w[c,j] x[t-W+1+j, c];   y = silu(pre) or pre
//
// Taps do not cross a document's start: there the inputs are state_in, or
// zeros. T tokens, N documents, C channels, W = 2..8 taps. Rows of x, y and
// their gradients may be slices of wider rows (strides in elements).

#include "kernels/common/launcher.h"

namespace osdn::kernels {

struct ShortConvShape {
  std::int64_t tokens = 0;
  std::int64_t documents = 0;
  std::int64_t channels = 0;
  int width = 4;  ///< W
  bool silu = true;
  Element element = Element::kBF16;
};

struct ShortConvFwdParams {
  ShortConvShape shape;
  const std::int64_t* cu_seqlens = nullptr;  ///< [N+1], on the device
  const void* x = nullptr;                   ///< [T,C], element
  std::int64_t x_stride = 0;                 ///< 0: C
  const float* weight = nullptr;             ///< [C,W]
  const void* state_in = nullptr;  ///< [N,W-1,C], element; null: zeros
  void* y = nullptr;               ///< [T,C], element
  std::int64_t y_stride = 0;       ///< 0: C
  /// [N,W-1,C], element, or null: the last inputs of each document, oldest
  /// first, state_in's where the document is shorter.
  void* state_out = nullptr;
};

struct ShortConvBwdParams {
  ShortConvShape shape;
  const std::int64_t* cu_seqlens = nullptr;
  const void* x = nullptr;
  std::int64_t x_stride = 0;
  const float* weight = nullptr;
  const void* state_in = nullptr;
  const void* grad_y = nullptr;  ///< [T,C], element
  std::int64_t grad_y_stride = 0;
  const void* grad_state_out = nullptr;  ///< [N,W-1,C], element; null: zero
  void* grad_x = nullptr;                ///< [T,C], element
  std::int64_t grad_x_stride = 0;
  float* grad_weight = nullptr;   ///< [C,W]
  void* grad_state_in = nullptr;  ///< [N,W-1,C], element, or null
  void* workspace = nullptr;      ///< short_conv_bwd_workspace_bytes
};

const char* short_conv_fwd_unsupported(const ShortConvFwdParams&);
const char* short_conv_bwd_unsupported(const ShortConvBwdParams&);
std::int64_t short_conv_bwd_workspace_bytes(const ShortConvBwdParams&);
void short_conv_fwd(const ShortConvFwdParams&, Stream stream);
void short_conv_bwd(const ShortConvBwdParams&, Stream stream);

}  // namespace osdn::kernels
