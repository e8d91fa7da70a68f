#pragma once
// A run's folder: who may write there, and what happens to an older run in it.

#include <filesystem>
#include <optional>
#include <string_view>

#include "osdn/core/file.h"

namespace osdn::checkpoint {

// Names in a run's folder.
inline constexpr std::string_view kCheckpointFolder = "checkpoints";
inline constexpr std::string_view kStepLogName = "log.jsonl";
inline constexpr std::string_view kConfigName = "config.json";
inline constexpr std::string_view kLockName = "run.lock";
inline constexpr std::string_view kFailuresName = "failures.log";

/// While it lives, no other process can take the same folder (flock on
/// run.lock, which the system drops when the process ends in any way).
class RunLock {
 public:
  /// Makes the folder if need be. Throws Error naming process, machine and
  /// start of the holder when there is one.
  explicit RunLock(const std::filesystem::path& run_dir);

 private:
  File file_;
};

enum class RunDirMode {
  kNew,        ///< an older run in the folder is an error
  kResume,     ///< the older run goes on
  kOverwrite,  ///< the older run is moved aside
};

struct RunDirState {
  bool holds_run = false;  ///< there is something to resume
  /// Where kOverwrite moved the older run: <run_dir>/replaced-<time>.
  std::optional<std::filesystem::path> moved_to;
};

/// Prepares the folder for a run; take the RunLock first. A folder holds a run
/// when it has a step log that is not empty or anything in its checkpoint
/// folder. Throws Error (kUsage) for kNew in such a folder. Nothing is ever
/// deleted: kOverwrite renames log, configuration and checkpoints, the
/// checkpoints first, so that a kill in between cannot leave one that a resume
/// would pick up.
RunDirState check_run_dir(const std::filesystem::path& run_dir,
                          RunDirMode mode);

}  // namespace osdn::checkpoint
