#pragma once
// The short convolution on a GPU: kernels/short_conv behind autograd. Inputs
// are checked already.

#include "osdn/ops/short_conv.h"

namespace osdn::ops {

ShortConvOutput short_conv_cuda(const ShortConvInputs& inputs,
                                const Documents& documents, bool silu);

}  // namespace osdn::ops
