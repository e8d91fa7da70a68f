#include "osdn/model/decoder.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <utility>
#include <vector>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/model/model_state.h"

namespace osdn::model {
namespace {

/// A recording costs a few steps; a batch that changes at once would never get
/// them back.
constexpr std::int64_t kStepsBefore = 2;

ops::Documents one_token_each(std::int64_t count) {
  std::vector<std::int64_t> cu_seqlens;
  for (std::int64_t n = 0; n <= count; ++n) cu_seqlens.push_back(n);
  return ops::Documents(std::move(cu_seqlens));
}

/// All of a state in places that nobody else holds.
void own(ModelState& state) {
  for (layers::AttentionState& layer : state.layers) {
    for (const StateTensor& entry : state_tensors()) {
      at::Tensor& tensor = layer.*entry.tensor;
      if (tensor.defined()) tensor = tensor.clone();
    }
    layer.in_place = true;
  }
}

}  // namespace

Decoder::Decoder(const LanguageModel& model, ModelState state)
    : model_(model), state_(std::move(state)) {
  if (state_.layers.empty()) {
    throw Error("decoding goes on from a state, and the documents have none");
  }
  for (layers::AttentionState& layer : state_.layers) layer.in_place = false;
}

bool Decoder::pays() const {
  return steps_ >= kStepsBefore && ops::GpuGraph::possible(model_.device()) &&
         model_.steps_in_place();
}

void Decoder::record(const at::Tensor& tokens) {
  const ops::Documents documents = one_token_each(tokens.size(0));
  own(state_);
  tokens_ = tokens.clone();
  step_.emplace(
      model_.device(),
      [&] {
        ModelState other = state_;  // its tensors are read and left alone
        for (layers::AttentionState& layer : other.layers) {
          layer.in_place = false;
        }
        model_.logits(tokens_, documents, &other);
      },
      [&] { logits_ = model_.logits(tokens_, documents, &state_); });
}

at::Tensor Decoder::logits(const at::Tensor& tokens) {
  const at::NoGradGuard no_grad;
  if (!step_ && pays()) record(tokens);
  ++steps_;
  if (!step_) {
    return model_.logits(tokens, one_token_each(tokens.size(0)), &state_);
  }
  tokens_.copy_(tokens);
  step_->run();
  return logits_;
}

}  // namespace osdn::model
