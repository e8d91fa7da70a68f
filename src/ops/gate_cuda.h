#pragma once
// The gates on a GPU: kernels/gates behind autograd. Inputs are checked
// already.

#include <ATen/core/Tensor.h>

#include "kernels/gates/gates.cuh"

namespace osdn::ops {

struct GateChoice {
  kernels::GateKind kind = kernels::GateKind::kSigmoid;
  double lower_bound = 0;
  double scale = 1;
};

/// A_log and bias may be undefined where the kind allows it.
at::Tensor gate_cuda(const at::Tensor& x, const at::Tensor& A_log,
                     const at::Tensor& bias, const GateChoice& choice);

}  // namespace osdn::ops
