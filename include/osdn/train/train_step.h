#pragma once
// One step: forward and backward of every micro-batch, norm, clip, update.

#include <functional>

#include "osdn/data/loader.h"
#include "osdn/data/micro_batch.h"
#include "osdn/model/language_model.h"
#include "osdn/optim/adamw.h"
#include "osdn/train/step_policy.h"

namespace osdn::train {

class PassRunner;
class Replica;

struct StepOptions {
  double lr = 0;
  double max_grad_norm = 0;  ///< 0: no clip
  /// Called between the backward passes and the look at the gradients, for
  /// diagnostics; may be empty.
  std::function<void()> after_backward{};
  Replica* replica = nullptr;  ///< where there are other ranks
};

/// The loss of a step is the sum over all its labels, of all ranks, divided by
/// their number, so it and the gradient do not depend on how the rows are dealt
/// out to micro-batches and ranks. All ranks come to the same result. Unless
/// the outcome is kUpdated, weights and moments keep every bit. Leaves no
/// gradients behind.
StepResult train_step(PassRunner& passes, optim::AdamW& adamw,
                      const data::StepBatch& batch, const StepOptions& options);

/// Frees the gradients that an interrupted step has left.
void drop_gradients(const model::LanguageModel& model);

/// A micro-batch as tensors on the device.
model::Batch to_batch(const data::MicroBatch& micro, at::Device device);

}  // namespace osdn::train
