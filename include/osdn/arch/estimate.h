#pragma once
// The arithmetic that a model costs per token, from its configuration alone.

#include <cstdint>
#include <string>

#include "osdn/config/config.h"

namespace osdn::arch {

/// Floating-point operations of a token, forward and backward, a multiplication
/// and an addition being two. The backward costs twice the forward:
///
///   3 (2 M + L (6 HV K V + HV K V gated + 2 W (2 kd + vd) + 8 HV K
///   preconditioned) + S 2 H D (C + 1))
///
/// M: weights that multiply (every matrix and the head, not the embedding's
/// rows). 6 HV K V: the recurrence as it is defined, one read, one write, one
/// output; chunk forms do more, which does not count as useful work. Hence a
/// utilisation from this figure never exceeds what was really done. The last
/// term is that of S softmax layers (L counts the others) in a document of C
/// tokens, where a token sees (C + 1) / 2 keys on average.
struct Flops {
  double matrices = 0;    ///< 6 M
  double recurrence = 0;  ///< delta rule and decay
  double convolution = 0;
  double preconditioner = 0;
  double softmax = 0;

  double total() const {
    return matrices + recurrence + convolution + preconditioner + softmax;
  }
};
/// `document`: tokens C of a document, which a softmax layer's work grows with.
Flops flops_per_token(const config::ModelConfig& model, std::int64_t document);
/// The formula above in one line, for logs.
std::string flops_formula();

}  // namespace osdn::arch
