#pragma once
// What a model costs, from its configuration alone: memory of a training step
// and arithmetic per token. Counts of parameters are exact; these are not.

#include <cstdint>
#include <string>

#include "osdn/config/config.h"

namespace osdn::arch {

/// Precision of the computation.
enum class Compute { kF32, kF64, kBF16 };
std::string name_of(Compute compute);  ///< "fp32", "fp64", "bf16"

/// Bytes on the device that trains. With P parameters of which P_32 stay in
/// fp32 (layers.md 1), b bytes a computed number (4, 8, 2) and m bytes a master
/// number (4, 8, 4):
///
///   weights     m P, and 2 (P - P_32) for bf16's compute copies
///   gradients   m P
///   optimizer   2 m P             AdamW's two moments
///   activations T (L A + 2 h) b   kept for the backward pass, T tokens
///             + T L F m           kept in the masters' precision
///
/// per token and layer, with the letters of layers.md,
///   A = 4 h                       two norms, input and output
///     + 4 (2 kd + vd)             projected, convolved, activated, normalised
///     + HV K                      the write key, with a preconditioner
///     + vd (2, or 4 gated)        output, normed output, gate and its product
///     + 4 i                       SwiGLU
///   F = HV                        beta
///     + HV (GDN) or HV K (KDA)    decay
///     + HV K, and HV for APF      d, r
///     + HV K V / 64               a state every 64 tokens
///
/// and for a softmax layer, with H heads of width D over G heads of keys,
///
///   A = 4 h + 2 (H + G) D + G D   projected, q and k turned
///     + 2 H D if H > G            keys and values spread over their groups
///     + D                         cosines and sines of the positions
///     + H D + 4 i                 output, SwiGLU
///   F = H                         log of the softmax's sum
///
/// With training.recompute a block keeps its two inputs (2 h b) and forms the
/// rest again, so that A and F count for one block alone.
///
/// Scratch of the operators, logits by chunks and the program itself come on
/// top. Measured: the resident memory of a CPU run of the quickstart's model
/// grows by 107 KB a token between rows of 2,048 and 16,384 tokens, against
/// 99 KB here.
struct Memory {
  double weights = 0;
  double gradients = 0;
  double optimizer = 0;
  double activations = 0;
  double buckets = 0;  ///< of gradients on their way between ranks

  double total() const {
    return weights + gradients + optimizer + activations + buckets;
  }
};
Memory estimate_memory(const config::ModelConfig& model, Compute compute,
                       std::int64_t tokens, bool recompute = false);

/// That of each of so many ranks:
///
///   buckets     r P               r bytes a number by dist.reduce_dtype; 4 for
///                                 P_32 when the rest computes in bf16
///
/// and with dist.shard_optimizer optimizer / ranks, and of the masters of bf16
/// weights, which are the m (P - P_32) above, as much.
Memory estimate_rank_memory(const config::ModelConfig& model,
                            const config::DistConfig& dist, Compute compute,
                            std::int64_t tokens, int ranks,
                            bool recompute = false);

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
