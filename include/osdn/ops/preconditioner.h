#pragma once
// The online-scaled diagonal preconditioner, math.md 2 and 4:
//
//   k_write_t = d_t * k_t;  s_t = <d_t, k_t^2>;  n_t = norm of k_t^2
//   d_{t+1} = clip(r_t d_t + eta beta_t (1 - beta_t s_t) / n_t k_t^2, lo, hi)
//
// Every token is clipped exactly. The recurrence depends on k, beta and r
// alone, so it can run beside the other projections of a layer.

#include <ATen/core/Tensor.h>

#include "osdn/ops/documents.h"

namespace osdn::ops {

enum class PreconditionerNorm {
  kFloor,  ///< n = max(|k|^2, 1e-6)
  kOff,    ///< n = 1
  kAdd,    ///< n = |k|^2 + 1e-5, for imported models
};

struct PreconditionerOptions {
  double eta = 0.003;
  double d_min = 0.5;
  double d_max = 2.0;
  bool beta_aware = true;  ///< false: eta (1 - s_t) / n_t k_t^2
  PreconditionerNorm norm = PreconditionerNorm::kFloor;
  bool detach = false;  ///< no gradient through d
  bool l2_norm = true;  ///< the recurrence sees k / sqrt(sum k^2 + 1e-6)
};

/// On the CPU all of one dtype, float or double; on a GPU k and k_write
/// bfloat16 or float, the rest float.
struct PreconditionerInputs {
  at::Tensor k;     ///< [T, H, K]
  at::Tensor beta;  ///< [T, HV]
  at::Tensor r;     ///< [T, HV], or undefined: 1
  at::Tensor d0;    ///< [HV, K] for every document, or [N, HV, K]
};

struct PreconditionerOutput {
  at::Tensor k_write;  ///< [T, HV, K] = d * k at the scale of the given k
  at::Tensor d_T;      ///< [N, HV, K], after each document's last token
};

/// Differentiable in every tensor input, through both outputs.
PreconditionerOutput preconditioner(const PreconditionerInputs& inputs,
                                    const Documents& documents,
                                    const PreconditionerOptions& options);

/// d before each token's own update, [T, HV, K]; for diagnostics, without
/// gradient.
at::Tensor preconditioner_trace(const PreconditionerInputs& inputs,
                                const Documents& documents,
                                const PreconditionerOptions& options);

}  // namespace osdn::ops
