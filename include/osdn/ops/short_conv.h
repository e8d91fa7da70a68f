#pragma once
// Depthwise causal convolution over the tokens of each document, layers.md 2:
//
//   y[t, c] = sum_{j < W} w[c, 0, j] x[t - W + 1 + j, c],  then SiLU if asked
//
// Taps never cross a document's start; there they read state0, or zeros.

#include <ATen/core/Tensor.h>

#include "osdn/ops/documents.h"

namespace osdn::ops {

struct ShortConvInputs {
  at::Tensor x;       ///< [T, C]
  at::Tensor weight;  ///< [C, 1, W]
  at::Tensor state0;  ///< [N, C, W-1], oldest input first, or undefined: zeros
};

struct ShortConvOutput {
  at::Tensor y;        ///< [T, C]
  at::Tensor state_T;  ///< [N, C, W-1], each document's last inputs
};

/// Differentiable in every tensor input, through both outputs.
ShortConvOutput short_conv(const ShortConvInputs& inputs,
                           const Documents& documents, bool silu = true);

}  // namespace osdn::ops
