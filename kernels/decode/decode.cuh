#pragma once
// One token of N sequences through an attention layer between its projections
// and o_proj, in one launch (docs/kernels/decode.md). Per value head, with key
// head h = hv H / HV:
//
//   q, k, v = silu(short convolution of the projection's rows and past inputs)
//   q, k    = x / sqrt(|x|^2 + 1e-6)
//   beta    = scale sigmoid(logit);  g, r from their logits (gates.cuh)
//   kt      = d k;  d = one step of the preconditioner (preconditioner.cuh)
//   Sbar    = Diag(exp(g)) S;  S = Sbar + kt (beta (v - Sbar^T k))^T
//   o       = RMSNorm(K^{-1/2} S^T q) weight act(gate)
//
// Everything between input and output stays in fp32; no sum depends on timing,
// so two runs give the same bits. Contiguous device memory.

#include "kernels/common/launcher.h"
#include "kernels/norm/gated_norm.cuh"
#include "kernels/preconditioner/preconditioner.cuh"

namespace osdn::kernels {

struct DecodeShape {
  std::int64_t sequences = 0;    ///< N
  std::int64_t key_heads = 0;    ///< H
  std::int64_t value_heads = 0;  ///< HV, a multiple of H
  std::int64_t key_width = 0;    ///< K, a multiple of 8 up to 256
  std::int64_t value_width = 0;  ///< V, a multiple of 8 up to 256
  int conv_width = 4;            ///< W, 2..8
  Element element = Element::kBF16;
};

/// One of q, k, v with C channels: H K for q and k, HV V for v.
struct DecodeConv {
  const void* x = nullptr;        ///< [N,C], element: the projection's rows
  const float* weight = nullptr;  ///< [C,W]
  /// [N,W-1,C], element, oldest first, as short_conv's states.
  const void* past = nullptr;
  /// The same after this token. May be `past` where each channel belongs to
  /// one value head: always for v, for q and k where HV is H.
  void* past_out = nullptr;
};

enum class DecodeDecay : int { kNone, kSoftplus, kBounded };

struct DecodeGates {
  const void* beta = nullptr;  ///< logits [N,HV], element, or null: beta = 1
  float beta_scale = 1.0f;
  DecodeDecay decay = DecodeDecay::kNone;
  bool decay_per_channel = false;
  const void* decay_logits = nullptr;  ///< [N,HV] or [N,HV,K], element
  const float* a_log = nullptr;        ///< [HV]
  const float* decay_bias = nullptr;   ///< [HV] or [HV,K]
  float lower_bound = 0.0f;            ///< kBounded: below 0
};

enum class DecodeRetention : int {
  kOne,
  kSigmoid,   ///< sigmoid(logit + bias)
  kTied,      ///< exp(g), g per head
  kConstant,  ///< `value`
};

struct DecodePreconditioner {
  const float* d = nullptr;  ///< [N,HV,K], or null: kt = k
  float* d_out = nullptr;    ///< may be d
  float eta = 0.003f;
  float box_lo = 0.5f;
  float box_hi = 2.0f;
  bool beta_aware = true;
  KeyEnergy energy = KeyEnergy::kFloor;
  DecodeRetention retention = DecodeRetention::kOne;
  const void* logits = nullptr;  ///< [N,HV], element, or null: zeros
  const float* bias = nullptr;   ///< [HV], or null: zeros
  float value = 1.0f;
};

struct DecodeParams {
  DecodeShape shape;
  DecodeConv q, k, v;
  DecodeGates gates;
  DecodePreconditioner preconditioner;
  const float* state = nullptr;  ///< [N,HV,K,V], 16-byte aligned
  float* state_out = nullptr;    ///< may be `state`
  GateActivation activation = GateActivation::kSilu;
  const void* gate = nullptr;          ///< [N,HV,V], element; null with kNone
  const float* norm_weight = nullptr;  ///< [V]
  float eps = 1e-6f;
  void* o = nullptr;  ///< [N,HV,V], element
};

/// Why the step cannot run as asked, or null.
const char* decode_unsupported(const DecodeParams&);

/// Neither allocates nor synchronises; throws when unsupported or when the
/// launch fails.
void decode(const DecodeParams&, Stream stream);

}  // namespace osdn::kernels
