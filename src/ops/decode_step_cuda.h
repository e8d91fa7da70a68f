#pragma once
// The decoding step on a GPU: kernels/decode. Inputs are checked already.

#include "osdn/ops/decode_step.h"

namespace osdn::ops {

DecodeStepOutput decode_step_cuda(const DecodeStepInputs& inputs,
                                  const DecodeState& state,
                                  const DecodeStepOptions& options);

}  // namespace osdn::ops
