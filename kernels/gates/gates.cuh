#pragma once
// The small gates of an attention layer, from logits to fp32 values
// (docs/kernels/gates.md). With z = x + bias, and A = A_log of the head:
//
//   kSoftplusDecay: y = -exp(A) softplus(z)              g of GDN and KDA
//   kBoundedDecay:  y = lower_bound sigmoid(exp(A) z)    g of bounded KDA
//   kSigmoid:       y = scale sigmoid(z)                 beta, r
//
// T tokens, H heads of W channels each: W = 1 per head, W = K per channel. A
// is taken as at most 80, so that y is finite.

#include "kernels/common/launcher.h"

namespace osdn::kernels {

enum class GateKind : int { kSoftplusDecay, kBoundedDecay, kSigmoid };

struct GateShape {
  GateKind kind = GateKind::kSigmoid;
  std::int64_t tokens = 0;
  std::int64_t heads = 0;
  std::int64_t head_width = 1;  ///< W
  Element element = Element::kBF16;
  float lower_bound = 0.0f;  ///< kBoundedDecay: below 0
  float scale = 1.0f;        ///< kSigmoid: 2 with negative eigenvalues
};

struct GateFwdParams {
  GateShape shape;
  const void* x = nullptr;       ///< [T,H,W], element
  std::int64_t x_stride = 0;     ///< elements from token to token; 0: H * W
  const float* a_log = nullptr;  ///< [H]; null with kSigmoid
  const float* bias = nullptr;   ///< [H,W]; may be null with kSigmoid: zeros
  float* y = nullptr;            ///< [T,H,W]
};

struct GateBwdParams {
  GateShape shape;
  const void* x = nullptr;
  std::int64_t x_stride = 0;
  const float* a_log = nullptr;
  const float* bias = nullptr;
  const float* grad_y = nullptr;  ///< [T,H,W]
  void* grad_x = nullptr;         ///< [T,H,W], element
  std::int64_t grad_x_stride = 0;
  float* grad_a_log = nullptr;  ///< [H], with a_log
  float* grad_bias = nullptr;   ///< [H,W], with bias
  void* workspace = nullptr;    ///< gate_bwd_workspace_bytes
};

const char* gate_fwd_unsupported(const GateFwdParams&);
const char* gate_bwd_unsupported(const GateBwdParams&);
std::int64_t gate_bwd_workspace_bytes(const GateBwdParams&);
void gate_fwd(const GateFwdParams&, Stream stream);
void gate_bwd(const GateBwdParams&, Stream stream);

}  // namespace osdn::kernels
