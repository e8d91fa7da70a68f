#pragma once
// The output norm of an attention layer: RMSNorm per head with one weight for
// all heads, times an activated gate (docs/kernels/norm.md):
//
//   y = o / sqrt(mean(o^2) + eps) * weight * act(gate)
//
// T tokens, HV heads of V = 1..512 channels. o, y and their gradients are
// contiguous; rows of gate and grad_gate may be slices of wider rows.

#include "kernels/common/launcher.h"

namespace osdn::kernels {

enum class GateActivation : int { kNone, kSilu, kSigmoid };

struct GatedNormShape {
  std::int64_t tokens = 0;
  std::int64_t heads = 0;  ///< HV
  std::int64_t width = 0;  ///< V
  Element element = Element::kBF16;
  GateActivation activation = GateActivation::kSilu;
  float eps = 1e-6f;
};

struct GatedNormFwdParams {
  GatedNormShape shape;
  const void* o = nullptr;        ///< [T,HV,V], element
  const void* gate = nullptr;     ///< [T,HV,V], element; null with kNone
  std::int64_t gate_stride = 0;   ///< elements from token to token; 0: HV * V
  const float* weight = nullptr;  ///< [V]
  void* y = nullptr;              ///< [T,HV,V], element
};

struct GatedNormBwdParams {
  GatedNormShape shape;
  const void* o = nullptr;
  const void* gate = nullptr;
  std::int64_t gate_stride = 0;
  const float* weight = nullptr;
  const void* grad_y = nullptr;  ///< [T,HV,V], element
  void* grad_o = nullptr;        ///< [T,HV,V], element; may be grad_y
  void* grad_gate = nullptr;     ///< [T,HV,V], element; null with kNone
  std::int64_t grad_gate_stride = 0;
  float* grad_weight = nullptr;  ///< [V]
  void* workspace = nullptr;     ///< gated_norm_bwd_workspace_bytes
};

const char* gated_norm_fwd_unsupported(const GatedNormFwdParams&);
const char* gated_norm_bwd_unsupported(const GatedNormBwdParams&);
std::int64_t gated_norm_bwd_workspace_bytes(const GatedNormBwdParams&);
void gated_norm_fwd(const GatedNormFwdParams&, Stream stream);
void gated_norm_bwd(const GatedNormBwdParams&, Stream stream);

}  // namespace osdn::kernels
