#pragma once
// The delta rule on the CPU: forward and hand-written backward in chunk form,
// parallel over (document, key head). Raw pointers, contiguous.

#include <cstdint>

#include "chunk_gate.h"
#include "osdn/ops/documents.h"

namespace osdn::ops {

struct DeltaRuleSizes {
  std::int64_t H = 0;   ///< key heads
  std::int64_t HV = 0;  ///< value heads
  std::int64_t K = 0;
  std::int64_t V = 0;
  GateKind gate = GateKind::kNone;
  bool l2_norm = true;
};

/// Layouts as in delta_rule.h; k_write, g, state0 may be null.
template <typename T>
struct DeltaRuleForward {
  const T* q;
  const T* k;
  const T* k_write;
  const T* v;
  const T* beta;
  const T* g;
  const T* state0;
  T* o;
  T* state_T;
  T* states;  ///< [chunks, HV, K, V], state at each chunk's start; null: not
              ///< kept
  T* u;       ///< [T, HV, V], beta * corrected error; null: not kept
};

/// grad_k_write, grad_g, grad_state0 may be null where the input was absent.
/// Every output element is written.
template <typename T>
struct DeltaRuleBackward {
  const T* grad_o;
  const T* grad_state_T;
  T* grad_q;
  T* grad_k;
  T* grad_k_write;
  T* grad_v;
  T* grad_beta;
  T* grad_g;
  T* grad_state0;
};

template <typename T>
void delta_rule_forward_cpu(const DeltaRuleSizes& sizes,
                            const Documents& documents,
                            const DeltaRuleForward<T>& data);

template <typename T>
void delta_rule_backward_cpu(const DeltaRuleSizes& sizes,
                             const Documents& documents,
                             const DeltaRuleForward<T>& data,
                             const DeltaRuleBackward<T>& grads);

}  // namespace osdn::ops
