#pragma once
// One token after another of the documents of a batch, from the state that
// their prompts left.
//
// On a GPU the step is recorded once (ops::GpuGraph), so that some hundred
// small kernels take one launch; the bits are those of LanguageModel::logits.
// On a CPU, and with softmax layers, whose caches grow, it is
// LanguageModel::logits.

#include <cstdint>
#include <optional>

#include "osdn/model/language_model.h"
#include "osdn/ops/gpu_graph.h"

namespace osdn::model {

class Decoder {
 public:
  /// Goes on from `state`, of at least one document, none of them at its start.
  /// The model must outlive it.
  Decoder(const LanguageModel& model, ModelState state);
  Decoder(Decoder&&) noexcept = default;
  Decoder& operator=(Decoder&&) = delete;

  /// tokens int64 [N], on the model's device, one of every document: logits
  /// [N, vocabulary], which hold until the next call. Without gradients.
  at::Tensor logits(const at::Tensor& tokens);

  /// Whether the step is recorded by now.
  bool recorded() const { return step_.has_value(); }
  /// After the last token; holds until the next call of logits().
  const ModelState& state() const { return state_; }

 private:
  bool pays() const;
  void record(const at::Tensor& tokens);

  const LanguageModel& model_;
  ModelState state_;
  std::int64_t steps_ = 0;
  at::Tensor tokens_, logits_;  // the recorded step's places
  std::optional<ops::GpuGraph> step_;
};

}  // namespace osdn::model
