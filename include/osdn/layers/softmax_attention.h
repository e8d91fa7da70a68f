#pragma once
// Causal softmax attention in the form of Llama: rotary positions (Su et al.
// 2021, arXiv 2104.09864), grouped key and value heads, no bias. Documents are
// kept apart, and positions restart at each.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "osdn/config/config.h"
#include "osdn/layers/attention.h"
#include "osdn/layers/parameter_source.h"
#include "osdn/ops/documents.h"

namespace osdn::layers {

/// x [T, heads, D] turned to its positions: with c and s [T, 1, D/2], the
/// cosines and sines, and x = (a, b) in halves, (a c - b s, b c + a s). Done in
/// the type of c and s; the result has that of x.
at::Tensor rotate_halves(const at::Tensor& x, const at::Tensor& cosines,
                         const at::Tensor& sines);

class SoftmaxAttention : public Mixer {
 public:
  /// Takes q_proj [H D, h], k_proj and v_proj [G D, h] and o_proj [h, H D] by
  /// name ("model.layers.N.attn....") from the source.
  SoftmaxAttention(const config::ModelConfig& config, std::int64_t layer,
                   const ParameterSource& parameters);

  /// The state carries the keys and values of all earlier tokens. Throws Error
  /// when it is of another number of documents. Observers see nothing: there
  /// is no write to measure.
  at::Tensor forward(const at::Tensor& x, const ops::Documents& documents,
                     AttentionState* state,
                     AttentionObserver* observer) const override;

 private:
  std::int64_t H_, G_, D_;
  double theta_;
  at::Tensor q_proj_, k_proj_, v_proj_, o_proj_;
};

}  // namespace osdn::layers
