#include "osdn/train/resume.h"

#include <string>

#include "osdn/checkpoint/weight_files.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/log.h"

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

void load_moments(const std::filesystem::path& checkpoint,
                  const RunState& state, optim::AdamW& adamw) {
  const checkpoint::WeightFiles moments(checkpoint,
                                        std::string(kOptimizerStem));
  adamw.load_state(moments.tensors(), state.optimizer);
}

}  // namespace osdn::train
