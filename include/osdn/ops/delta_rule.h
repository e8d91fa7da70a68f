#pragma once
// The gated delta rule as one differentiable operator, math.md 2 and 3:
//
//   Sbar = Diag(exp(g_t)) S;  e_t = v_t - Sbar^T k_t
//   S    = Sbar + k_write_t (beta_t e_t)^T;  o_t = K^{-1/2} S^T q_t
//
// The gate is absent (DeltaNet), per head (GDN) or per channel (KDA); the
// write key is k itself or a preconditioned one. The backward is written by
// hand in chunk form.

#include <ATen/core/Tensor.h>

#include "osdn/ops/documents.h"

namespace osdn::ops {

/// H key heads, HV value heads (a multiple of H), T packed tokens, N documents.
/// On the CPU all of one dtype, float or double; on a GPU q, k, k_write and v
/// bfloat16 or float, the rest float. Any strides.
struct DeltaRuleInputs {
  at::Tensor q;        ///< [T, H, K]
  at::Tensor k;        ///< [T, H, K]
  at::Tensor k_write;  ///< [T, HV, K], or undefined: k is written
  at::Tensor v;        ///< [T, HV, V]
  at::Tensor beta;     ///< [T, HV]
  at::Tensor g;        ///< log decay <= 0: undefined, [T, HV] or [T, HV, K]
  at::Tensor state0;   ///< [N, HV, K, V], or undefined: zeros
};

struct DeltaRuleOptions {
  /// q and k are divided by sqrt(sum x^2 + 1e-6) inside; k_write, given at the
  /// scale of the raw k, is divided by k's norm.
  bool l2_norm = true;
};

struct DeltaRuleOutput {
  at::Tensor o;        ///< [T, HV, V]
  at::Tensor state_T;  ///< [N, HV, K, V]
};

/// Differentiable in every tensor input, through both outputs. Throws Error
/// that names the tensor whose shape, dtype or device does not fit.
DeltaRuleOutput delta_rule(const DeltaRuleInputs& inputs,
                           const Documents& documents,
                           const DeltaRuleOptions& options = {});

}  // namespace osdn::ops
