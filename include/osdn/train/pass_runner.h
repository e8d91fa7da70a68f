#pragma once
// Forward and backward of micro-batches. A GPU that is done with them faster
// than the host hands them over gets them as a recording (a CUDA graph), which
// one launch starts.

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "osdn/config/config.h"
#include "osdn/data/micro_batch.h"
#include "osdn/model/language_model.h"

namespace osdn::train {

struct PassOptions {
  /// Of several micro-batches whose gradients are summed.
  bool first_of_several = false;
  /// Called between forward and backward; may be empty. Not with `alone`.
  std::function<void()> before_backward{};
};

class PassRunner {
 public:
  /// Follows training.cuda_graph; `alone`, `config` as check_recordable().
  PassRunner(const model::LanguageModel& model, const config::Config& config,
             bool alone);
  ~PassRunner();
  PassRunner(const PassRunner&) = delete;
  PassRunner& operator=(const PassRunner&) = delete;

  const model::LanguageModel& model() const;
  /// What the host needs to hand a pass to the GPU, as a part of the time from
  /// its begin to its end there: of the last pass that was not recorded; 0
  /// before one, and on a CPU.
  double host_share();

  /// Adds the gradient of the micro-batch's loss, its sum over the tokens
  /// divided by `labels`, to the parameters' and returns that loss; both are
  /// float64 scalars on the model's device. The loss holds until the next run,
  /// and so do gradients that were undefined before, but for those of the
  /// first of several. Throws Error when training.cuda_graph is "on" and
  /// recording fails.
  at::Tensor run(const data::MicroBatch& micro, const at::Tensor& labels,
                 const PassOptions& options = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Throws Error (kUsage) where training.cuda_graph is "on" and passes cannot be
/// recorded: on a CPU, of softmax layers, and beside other ranks (not `alone`),
/// to which gradients are sent while the backward runs.
void check_recordable(const config::Config& config, at::Device device,
                      bool alone);

/// The micro-batch as the GPU gets it: filled up to `tokens` (where that is
/// more) with a document without labels, and with empty documents behind it up
/// to a power of two, so that packings are alike that one recording can serve.
data::MicroBatch filled_up(const data::MicroBatch& micro, std::int64_t tokens);

/// A pass as it comes, without a recording.
at::Tensor plain_pass(const model::LanguageModel& model,
                      const model::Batch& batch, const at::Tensor& labels,
                      const PassOptions& options = {});

}  // namespace osdn::train
