#pragma once
// The delta rule, forward and backward, on packed documents: launchers only.
//
// Per value head, with the state S [K,V] in fp32 and key head h = hv H / HV:
//   Sbar = Diag(exp(g_t)) S;  e_t = v_t - Sbar^T k_t
//   S    = Sbar + kt_t (beta_t e_t)^T;  o_t = K^{-1/2} S^T q_t
//
// T tokens, N documents, H key heads, HV value heads (a multiple of H), key
// width K and value width V, each a multiple of 8 up to 256. All tensors are
// contiguous. Element stands for bf16 or fp32. Nothing allocates or
// synchronises, so a CUDA graph can hold a call. Two runs give the same bits.

#include <cstdint>

#include "kernels/common/launcher.h"

namespace osdn::kernels {

enum class DeltaRuleGate : int { kNone, kPerHead, kPerChannel };

/// kPlain is the version to compare with: fp32 arithmetic on the CUDA cores,
/// every shape. kChunk uses the matrix units: bf16, K 64, 128 or 256, V a
/// multiple of 64. kAuto takes kChunk where it can.
enum class DeltaRuleVersion : int { kAuto, kPlain, kChunk };

struct DeltaRuleShape {
  std::int64_t tokens = 0;       ///< T
  std::int64_t documents = 0;    ///< N
  std::int64_t key_heads = 0;    ///< H
  std::int64_t value_heads = 0;  ///< HV
  std::int64_t key_width = 0;    ///< K
  std::int64_t value_width = 0;  ///< V
};

/// What forward and backward share.
struct DeltaRuleInputs {
  DeltaRuleShape shape;
  Element element = Element::kBF16;
  DeltaRuleGate gate = DeltaRuleGate::kNone;
  DeltaRuleVersion version = DeltaRuleVersion::kAuto;
  /// q and k are raw, and x / sqrt(sum x^2 + 1e-6) is used; k_write is raw
  /// too and shares k's factor. Gradients are with respect to the raw ones.
  bool l2_norm = true;

  const void* q = nullptr;        ///< Element [T,H,K]
  const void* k = nullptr;        ///< Element [T,H,K]
  const void* k_write = nullptr;  ///< Element [T,HV,K]; null: k is written
  const void* v = nullptr;        ///< Element [T,HV,V]
  const float* beta = nullptr;    ///< [T,HV]
  const float* g = nullptr;       ///< [T,HV] or [T,HV,K], log decay <= 0
  const float* state0 = nullptr;  ///< [N,HV,K,V]; null: zeros
  const std::int64_t* cu_seqlens = nullptr;  ///< [N+1], on the device

  /// Chunk-local quantities of delta_rule_saved_bytes() bytes. Forward leaves
  /// them here and backward takes them; null: forward keeps them in its
  /// workspace and backward computes them again. Same choice of `version`.
  void* saved = nullptr;
  void* workspace = nullptr;  ///< 256-byte aligned, as `saved`
};

struct DeltaRuleFwdParams {
  DeltaRuleInputs in;
  void* o = nullptr;         ///< Element [T,HV,V]
  float* state_T = nullptr;  ///< [N,HV,K,V] or null
};

struct DeltaRuleBwdParams {
  DeltaRuleInputs in;
  const void* grad_o = nullptr;         ///< Element [T,HV,V]
  const float* grad_state_T = nullptr;  ///< [N,HV,K,V]; null: zeros
  void* grad_q = nullptr;               ///< Element [T,H,K]
  void* grad_k = nullptr;               ///< Element [T,H,K]
  void* grad_k_write = nullptr;         ///< Element [T,HV,K], with k_write
  void* grad_v = nullptr;               ///< Element [T,HV,V]
  float* grad_beta = nullptr;           ///< [T,HV]
  float* grad_g = nullptr;              ///< as g, with a gate
  float* grad_state0 = nullptr;         ///< [N,HV,K,V] or null
};

std::int64_t delta_rule_saved_bytes(const DeltaRuleInputs& in);
std::int64_t delta_rule_fwd_workspace_bytes(const DeltaRuleFwdParams& params);
std::int64_t delta_rule_bwd_workspace_bytes(const DeltaRuleBwdParams& params);

/// Why a call cannot be done, or null. Pointers need not be set yet.
const char* delta_rule_unsupported(const DeltaRuleInputs& in);

void delta_rule_fwd(const DeltaRuleFwdParams& params, Stream stream);
void delta_rule_bwd(const DeltaRuleBwdParams& params, Stream stream);

}  // namespace osdn::kernels
