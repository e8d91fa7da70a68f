#pragma once
// One forward and backward pass on a GPU as a recording.

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "osdn/model/language_model.h"
#include "osdn/ops/gpu_graph.h"

namespace osdn::train {

class RecordedPass {
 public:
  /// For batches of as many tokens and documents as `batch`. The parameters'
  /// gradients are those of before. `beside`: an earlier recording, whose
  /// memory this one shares; null: none. Throws Error when it cannot be
  /// recorded.
  RecordedPass(const model::LanguageModel& model, const model::Batch& batch,
               const at::Tensor& labels, const RecordedPass* beside);

  /// The loss; it and the gradients hold until the next run.
  at::Tensor run(const model::Batch& batch, const at::Tensor& labels);
  /// By parameter; undefined where there is none.
  const std::vector<at::Tensor>& gradients() const { return gradients_; }

 private:
  model::Batch batch_;  // what the recording reads
  at::Tensor labels_;
  at::Tensor loss_;
  std::vector<at::Tensor> gradients_;
  std::unique_ptr<ops::GpuGraph> graph_;
};

}  // namespace osdn::train
