#pragma once
// May a run go on from a checkpoint, and what changes when it does.
//
// The rule: what the weights and the order of the data are made of has to be as
// it was; everything else may change, the new configuration holds from the next
// step on, and each change is logged.
//
//   has to agree   model.*, training.seed, the data (by content, wherever it
//                  lies), data.context_length, .sequence_length, .packing,
//                  .shuffle, .mask_document_end, fp64 or not
//   may change     everything else

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "osdn/train/run_state.h"

namespace osdn::train {

/// A key whose value differs between two configurations.
struct KeyChange {
  std::string key;     ///< "optimizer.beta1"
  std::string before;  ///< JSON, or "(not set)"
  std::string after;
};

/// Every key that differs, sorted. Both are resolved configurations as JSON.
std::vector<KeyChange> changed_keys(std::string_view before,
                                    std::string_view after);

/// What a resume has to tell.
struct ResumeReport {
  std::vector<KeyChange> changes;     ///< that are allowed
  std::vector<std::string> warnings;  ///< why bits may differ from now on
};

/// `checkpoint` is for messages. `now` says what this start would use: seed,
/// data_fingerprint, device, dtype, threads. Throws Error (kUsage) that lists
/// every key that has to agree and does not, with both values.
ResumeReport check_resumable(const std::filesystem::path& checkpoint,
                             std::string_view config_before,
                             std::string_view config_now,
                             const RunState& before, const RunState& now);

}  // namespace osdn::train
