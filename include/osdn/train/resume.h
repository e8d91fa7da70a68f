#pragma once
// From a checkpoint back to a running state.

#include <filesystem>
#include <optional>

#include "osdn/checkpoint/checkpoint_store.h"
#include "osdn/optim/adamw.h"
#include "osdn/train/run_state.h"

namespace osdn::train {

/// The newest sound checkpoint of a store; why newer ones were passed over is
/// logged. Nothing when there is none at all. Throws Error (kBadInput) listing
/// all of them when there are some and none is sound.
std::optional<std::filesystem::path> find_checkpoint(
    const checkpoint::CheckpointStore& store);

/// Moments and counters of a checkpoint, of one rank or of several.
void load_moments(const std::filesystem::path& checkpoint,
                  const RunState& state, optim::AdamW& adamw);

}  // namespace osdn::train
