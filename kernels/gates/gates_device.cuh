#pragma once
// The value of one gate, for every kernel that computes one.

#include "kernels/common/activation.cuh"
#include "kernels/gates/gates.cuh"

namespace osdn::kernels {

/// Largest A: its exponential times a chunk of large logits is finite in fp32.
inline constexpr float kMaxALog = 80.0f;

__device__ __forceinline__ float decay_rate(float a_log) {
  return expf(a_log > kMaxALog ? kMaxALog : a_log);
}

/// A column's parameters.
struct GateColumn {
  float decay;  ///< exp(A)
  float bias;
};

__device__ __forceinline__ float softplus(float z) {
  return z > 20.0f ? z : log1pf(expf(z));
}

__device__ __forceinline__ float gate_value(const GateShape& shape,
                                            const GateColumn& column, float x) {
  const float z = x + column.bias;
  switch (shape.kind) {
    case GateKind::kSoftplusDecay:
      return -column.decay * softplus(z);
    case GateKind::kBoundedDecay:
      return shape.lower_bound * sigmoid(column.decay * z);
    default:
      return shape.scale * sigmoid(z);
  }
}

}  // namespace osdn::kernels
