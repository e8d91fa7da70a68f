#pragma once
// One token of every sequence through an attention layer, from the rows of its
// projections to the row that o_proj takes: what generating a token costs
// besides matrix products. layers.md 2 to 6 in one operator, without gradient:
//
//   q, k, v     short_conv with SiLU, q and k normalised to length one
//   beta, g, r  sigmoid_gate, softplus_decay or bounded_decay, sigmoid_gate
//   k_write, d  preconditioner
//   S, o        delta_rule, then gated_rms_norm
//
// On the CPU it is made of these operators, on a GPU it is one kernel that
// rounds nothing in between.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "osdn/ops/norm.h"
#include "osdn/ops/preconditioner.h"

namespace osdn::ops {

/// N sequences, H key heads, HV value heads (a multiple of H). Types as in the
/// operators named above: on a GPU rows and past inputs bfloat16 or float, the
/// rest float; K and V multiples of 8 up to 256 there.
struct DecodeStepInputs {
  at::Tensor q, k;                ///< [N, H K]
  at::Tensor v;                   ///< [N, HV V]
  at::Tensor q_filter, k_filter;  ///< [H K, 1, W]
  at::Tensor v_filter;            ///< [HV V, 1, W]
  at::Tensor beta;                ///< logits [N, HV], or undefined: 1
  at::Tensor decay;           ///< logits [N, HV] or [N, HV, K], undefined: none
  at::Tensor A_log;           ///< [HV], with decay
  at::Tensor decay_bias;      ///< [HV] or [HV, K], with decay
  at::Tensor retention;       ///< logits of r [N, HV], or undefined
  at::Tensor retention_bias;  ///< [HV], or undefined
  at::Tensor gate;            ///< [N, HV V], or undefined
  at::Tensor norm_weight;     ///< [V]
};

/// What goes from token to token. The past inputs are those of short_conv; as
/// they come from there or from here no call has to transpose them.
struct DecodeState {
  at::Tensor state;           ///< S [N, HV, K, V]
  at::Tensor d;               ///< [N, HV, K], or undefined: no preconditioner
  at::Tensor conv_q, conv_k;  ///< [N, H K, W-1]
  at::Tensor conv_v;          ///< [N, HV V, W-1]
};

enum class DecodeRetention {
  kOne,
  kSigmoid,   ///< of the logits, the bias or their sum, whichever is given
  kTied,      ///< exp(g), g per head
  kConstant,  ///< retention_value
};

struct DecodeStepOptions {
  double beta_scale = 1;
  std::optional<double> lower_bound;     ///< the bounded form of the decay
  PreconditionerOptions preconditioner;  ///< with d; l2_norm stays on
  DecodeRetention retention = DecodeRetention::kOne;
  double retention_value = 1;
  GateActivation activation = GateActivation::kSilu;
  double eps = 1e-6;
  /// The given state's own tensors take the new state, where one owner alone
  /// holds them and wants them to keep their places.
  bool in_place = false;
};

struct DecodeStepOutput {
  at::Tensor o;       ///< [N, HV V]
  DecodeState state;  ///< after the token; the given one, unless in_place,
                      ///< is left as it is
};

/// Throws Error that names the tensor whose shape, dtype or device does not
/// fit, and where gradients are on and an input needs its own.
DecodeStepOutput decode_step(const DecodeStepInputs& inputs,
                             const DecodeState& state,
                             const DecodeStepOptions& options);

}  // namespace osdn::ops
