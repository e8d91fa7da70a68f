#pragma once
// The whole model, layers.md 1: embedding, blocks of norm, attention, norm,
// SwiGLU, a final norm and the head with its loss. Built from
// arch::parameter_table, so its parameters are that table's, in its order.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "osdn/arch/parameter_table.h"
#include "osdn/config/config.h"
#include "osdn/layers/attention.h"
#include "osdn/ops/documents.h"
#include "osdn/ops/linear_cross_entropy.h"

namespace osdn::model {

/// One parameter: what the table says of it, and its values. A model in
/// bfloat16 computes with `tensor` and keeps the values in fp32 in `master`;
/// parameters that its operators take in fp32 anyway, and all parameters of
/// other models, are their own masters.
struct ModelParameter {
  arch::Parameter info;
  at::Tensor tensor;  ///< leaf, requires grad
  at::Tensor master;  ///< fp32, or `tensor` itself; see release_masters
};

/// Packed tokens. tokens and labels are int64 [T] on the model's device;
/// labels hold ops::kNoLabel where nothing is predicted.
struct Batch {
  at::Tensor tokens;
  at::Tensor labels;
  ops::Documents documents;
};

/// What a model carries from one piece of its documents to the next, one entry
/// a layer, documents in the order of the Batch.
struct ModelState {
  std::vector<layers::AttentionState> layers;
};

class LanguageModel {
 public:
  /// Parameters are allocated and zero; call initialise or load_weights.
  LanguageModel(const config::ModelConfig& config, at::ScalarType dtype,
                at::Device device);
  ~LanguageModel();
  LanguageModel(LanguageModel&&) noexcept;
  LanguageModel& operator=(LanguageModel&&) noexcept;

  /// First values of layers.md 1, 4, 5, 6. Each parameter draws from a stream
  /// of its own, given by (seed, name): the same whatever the other parameters.
  void initialise(std::uint64_t seed);

  const config::ModelConfig& config() const;
  at::ScalarType dtype() const;
  at::Device device() const;

  /// In table order; the tensors are the model's own.
  const std::vector<ModelParameter>& parameters() const;
  /// After masters were changed from outside: computes with their values from
  /// now on.
  void take_masters();

  /// Gives the memory of masters beside bf16 tensors back: they are undefined
  /// from now on, and kept elsewhere.
  void release_masters();

  /// Called by hidden() before it computes with a part of the weights: the
  /// embedding (0), each block (1 and on), the final norm and head (last), for
  /// weights that are still on their way. Null: all are there.
  void set_arrival(std::function<void(std::int64_t part)> arrival);
  /// The part that a parameter belongs to, as set_arrival counts.
  std::int64_t part_of(const arch::Parameter& info) const;

  /// Each block forms its activations a second time in the backward instead of
  /// keeping them; same bits.
  void set_recompute(bool recompute);

  /// Final-norm output [T, h]. With a state, every document continues from it
  /// and it is replaced by the state after the last token; an empty one
  /// (`layers` of size 0) starts the documents and is filled.
  at::Tensor hidden(const at::Tensor& tokens, const ops::Documents& documents,
                    ModelState* state = nullptr) const;

  /// Sum of token losses, a differentiable float64 scalar.
  at::Tensor loss_sum(const Batch& batch) const;
  /// Per-token log-likelihoods of the labels, without gradient.
  ops::TokenScores token_scores(const Batch& batch,
                                ModelState* state = nullptr) const;
  /// [T, vocab], for short inputs.
  at::Tensor logits(const at::Tensor& tokens, const ops::Documents& documents,
                    ModelState* state = nullptr) const;

  /// Whether logits() of one token a document, from a complete state and
  /// without gradients, minds AttentionState::in_place in every layer.
  bool steps_in_place() const;

  /// Sees what each attention layer computed in the next forward passes, for
  /// diagnostics (q_geo); null to stop.
  void observe(layers::AttentionObserver* observer);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace osdn::model
