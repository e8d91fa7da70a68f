#include "osdn/train/train_step.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "osdn/ops/to_device.h"
#include "osdn/optim/grad_norm.h"
#include "osdn/train/gradient_sum.h"
#include "osdn/train/pass_runner.h"
#include "osdn/train/replica.h"

namespace osdn::train {

static_assert(data::kNoLabel == ops::kNoLabel);

void drop_gradients(const model::LanguageModel& model) {
  for (const model::ModelParameter& parameter : model.parameters()) {
    parameter.tensor.mutable_grad().reset();
  }
}

model::Batch to_batch(const data::MicroBatch& micro, at::Device device) {
  const auto size = static_cast<std::int64_t>(micro.tokens.size());
  at::Tensor tokens = at::empty({size}, at::kLong);
  std::copy(micro.tokens.begin(), micro.tokens.end(),
            tokens.mutable_data_ptr<std::int64_t>());
  at::Tensor labels = at::empty({size}, at::kLong);
  std::copy(micro.labels.begin(), micro.labels.end(),
            labels.mutable_data_ptr<std::int64_t>());
  return {ops::to_device(tokens, device), ops::to_device(labels, device),
          ops::Documents(micro.cu_seqlens)};
}

namespace {

// Loss and gradient norm of the step, over all ranks.
void judge_step(const optim::AdamW& adamw, const at::Tensor& loss_sum,
                Replica* replica, StepResult& result) {
  if (replica == nullptr) {
    result.grad_norm = adamw.gradient_norm();
    result.loss = loss_sum.item<double>();
    return;
  }
  {
    // Here a GPU's host waits for what the other ranks send.
    const dist::World::Wait wait(replica->world(), "the gradients' sums");
    result.grad_norm = adamw.gradient_norm();
    result.loss = loss_sum.item<double>();
  }
  // One exchange: the GPU stands still until it is over.
  double squares = 0;
  double loss = 0;
  for (const auto& of_rank : replica->world().all_numbers(
           {result.grad_norm * result.grad_norm, result.loss})) {
    squares += of_rank[0];
    loss += of_rank[1];
  }
  if (replica->has_shards()) result.grad_norm = std::sqrt(squares);
  result.loss = loss;
}

}  // namespace

StepResult train_step(PassRunner& passes, optim::AdamW& adamw,
                      const data::StepBatch& batch,
                      const StepOptions& options) {
  const model::LanguageModel& model = passes.model();
  if (batch.valid_labels == 0) {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    return {StepOutcome::kUnlabelled, kNone, kNone};
  }
  drop_gradients(model);
  StepResult result;
  // The loss stays on the device until the end: asking for it would make a GPU
  // wait for the host.
  const auto scalar =
      at::TensorOptions().dtype(at::kDouble).device(model.device());
  const at::Tensor labels =
      at::full({}, static_cast<double>(batch.valid_labels), scalar);
  at::Tensor loss_sum = at::zeros({}, scalar);
  GradientSum gradients(model);
  // A micro-batch without labels adds nothing to loss or gradient.
  std::vector<const data::MicroBatch*> micros;
  for (const data::MicroBatch& micro : batch.micro_batches) {
    if (micro.valid_labels > 0) micros.push_back(&micro);
  }
  for (const data::MicroBatch* micro : micros) {
    PassOptions pass;
    pass.first_of_several = micros.size() > 1 && micro == micros.front();
    if (options.replica && micro == micros.back()) {
      pass.before_backward = [&] {
        options.replica->gradients_follow(gradients);
      };
    }
    loss_sum += passes.run(*micro, labels, pass);
    gradients.take();
  }
  if (options.replica) {
    options.replica->reduce_gradients();
  } else {
    gradients.finish();
  }
  if (options.after_backward) {
    options.after_backward();
  }
  judge_step(adamw, loss_sum, options.replica, result);
  if (std::isfinite(result.loss) && std::isfinite(result.grad_norm)) {
    adamw.step(options.lr,
               optim::clip_factor(result.grad_norm, options.max_grad_norm));
  } else {
    result.outcome = StepOutcome::kNonFinite;
  }
  if (options.replica) options.replica->spread_weights();
  drop_gradients(model);
  return result;
}

}  // namespace osdn::train
