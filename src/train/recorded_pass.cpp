#include "recorded_pass.h"

#include <utility>

#include "osdn/ops/gpu.h"
#include "osdn/train/pass_runner.h"
#include "osdn/train/train_step.h"

namespace osdn::train {
namespace {

/// Takes the parameters' gradients away, so that a pass leaves its own alone.
std::vector<at::Tensor> take_gradients(const model::LanguageModel& model) {
  std::vector<at::Tensor> taken;
  for (const model::ModelParameter& parameter : model.parameters()) {
    taken.push_back(
        std::exchange(parameter.tensor.mutable_grad(), at::Tensor()));
  }
  return taken;
}

class GradientsAside {
 public:
  explicit GradientsAside(const model::LanguageModel& model)
      : model_(model), aside_(take_gradients(model)) {}
  ~GradientsAside() {
    for (std::size_t i = 0; i < aside_.size(); ++i) {
      model_.parameters()[i].tensor.mutable_grad() = aside_[i];
    }
  }
  GradientsAside(const GradientsAside&) = delete;
  GradientsAside& operator=(const GradientsAside&) = delete;

 private:
  const model::LanguageModel& model_;
  std::vector<at::Tensor> aside_;
};

}  // namespace

RecordedPass::RecordedPass(const model::LanguageModel& model,
                           const model::Batch& batch, const at::Tensor& labels,
                           const RecordedPass* beside)
    : batch_{batch.tokens.clone(), batch.labels.clone(),
             ops::Documents(batch.documents.cu_seqlens())},
      labels_(labels.clone()) {
  batch_.documents.on(model.device());
  const GradientsAside aside(model);
  graph_ = std::make_unique<ops::GpuGraph>(
      model.device(),
      [&] {
        plain_pass(model, batch_, labels_);
        drop_gradients(model);
        // A whole pass's memory, of no use to the recording.
        ops::release_gpu_memory();
      },
      [&] {
        loss_ = plain_pass(model, batch_, labels_);
        gradients_ = take_gradients(model);
      },
      beside ? beside->graph_.get() : nullptr);
}

at::Tensor RecordedPass::run(const model::Batch& batch,
                             const at::Tensor& labels) {
  const at::Device device = labels_.device();
  batch_.tokens.copy_(batch.tokens);
  batch_.labels.copy_(batch.labels);
  batch_.documents.on(device).copy_(batch.documents.on(device));
  labels_.copy_(labels);
  graph_->run();
  return loss_;
}

}  // namespace osdn::train
