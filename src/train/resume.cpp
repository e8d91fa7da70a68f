#include "osdn/train/resume.h"

#include <string>

#include "osdn/checkpoint/safetensors.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/log.h"
#include "osdn/model/weights.h"

namespace osdn::train {

std::optional<std::filesystem::path> find_checkpoint(
    const checkpoint::CheckpointStore& store) {
  const checkpoint::LatestCheckpoint latest = store.find_latest();
  std::string passed_over;
  for (const checkpoint::PassedOver& bad : latest.passed_over) {
    log::warn("passed over ", bad.path.string(), ": ", bad.reason);
    passed_over += concat("\n  ", bad.path.string(), ": ", bad.reason);
  }
  if (latest.found) {
    return latest.found->path;
  }
  if (!passed_over.empty()) {
    throw Error(
        concat(store.folder().string(),
               ": no checkpoint is sound:", passed_over,
               "\nTo start the run again from its first step, use --overwrite "
               "in place of --resume auto."),
        ExitCode::kBadInput);
  }
  return {};
}

void load_checkpoint(const std::filesystem::path& checkpoint,
                     const RunState& state, model::LanguageModel& model,
                     optim::AdamW& adamw) {
  model::load_weights(model, checkpoint / kWeightsName);
  const checkpoint::SafetensorsFile moments(checkpoint / kOptimizerName);
  adamw.load_state(moments.tensors(), state.optimizer);
}

}  // namespace osdn::train
