#pragma once
// The operators' choices in the kernels' words, where several kernels have
// them.

#include <ATen/core/Tensor.h>

#include "kernels/norm/gated_norm.cuh"
#include "kernels/preconditioner/preconditioner.cuh"
#include "osdn/ops/norm.h"
#include "osdn/ops/preconditioner.h"

namespace osdn::ops {

inline kernels::KeyEnergy energy_of(PreconditionerNorm norm) {
  switch (norm) {
    case PreconditionerNorm::kOff:
      return kernels::KeyEnergy::kOff;
    case PreconditionerNorm::kAdd:
      return kernels::KeyEnergy::kAdd;
    case PreconditionerNorm::kFloor:
      break;
  }
  return kernels::KeyEnergy::kFloor;
}

/// kNone where there is no gate.
inline kernels::GateActivation activation_of(const at::Tensor& gate,
                                             GateActivation activation) {
  if (!gate.defined()) return kernels::GateActivation::kNone;
  return activation == GateActivation::kSilu
             ? kernels::GateActivation::kSilu
             : kernels::GateActivation::kSigmoid;
}

}  // namespace osdn::ops
