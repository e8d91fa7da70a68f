#pragma once
// The language-model head and its loss, by chunks of tokens, so that
// [tokens, vocabulary] never exists at once. The gradient is formed in the
// forward pass; the head's gradient accumulates over the chunks.

#include <ATen/core/Tensor.h>

namespace osdn::ops {

inline constexpr std::int64_t kNoLabel = -100;

/// Sum over tokens of -log softmax(hidden weight^T)[label], natural log.
///   hidden [T, h], weight [vocab, h], labels [T] int64, kNoLabel = no loss.
/// Returns a float64 scalar, differentiable in hidden and weight. Divide it by
/// the number of valid labels of the whole step. Throws Error naming position
/// and id when a label is neither kNoLabel nor below vocab; on a GPU the loss
/// is NaN then. `chunk_tokens` rows of logits exist at once; 0: as many as the
/// device wants.
at::Tensor linear_cross_entropy(const at::Tensor& hidden,
                                const at::Tensor& weight,
                                const at::Tensor& labels,
                                std::int64_t chunk_tokens = 0);

struct TokenScores {
  at::Tensor log_prob;  ///< [T] float64; 0 where there is no label
  at::Tensor greedy;    ///< [T] bool: the label is the first largest logit
};

/// hidden weight^T [T, vocab], in fp32 where the inputs are bfloat16.
at::Tensor linear_logits(const at::Tensor& hidden, const at::Tensor& weight);

/// Per-token log-likelihoods, without gradient.
TokenScores linear_token_scores(const at::Tensor& hidden,
                                const at::Tensor& weight,
                                const at::Tensor& labels,
                                std::int64_t chunk_tokens = 0);

}  // namespace osdn::ops
