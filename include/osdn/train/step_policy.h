#pragma once
// What happens to a step that cannot be an update.
//
// A step whose loss or gradient norm is not finite leaves weights, moments and
// the schedule as they were; the data goes on. A step without a valid label
// does the same, without counting towards a stop.

#include <cstdint>
#include <string>

#include "osdn/config/config.h"
#include "osdn/train/run_state.h"

namespace osdn::train {

enum class StepOutcome {
  kUpdated,
  kUnlabelled,  ///< no valid label in any micro-batch
  kNonFinite,   ///< loss or gradient norm
};

struct StepResult {
  StepOutcome outcome = StepOutcome::kUpdated;
  double loss = 0;       ///< mean over the step's valid labels; NaN: none
  double grad_norm = 0;  ///< before the clip
};

enum class Verdict {
  kGoOn,
  kStop,      ///< too many in a row; the step counts as taken
  kStopHere,  ///< policy "stop"; the step does not count, a resume repeats it
};

struct Decision {
  Verdict verdict = Verdict::kGoOn;
  std::string message;  ///< for the log, empty after an update
};

/// Judges a step and counts it in `state` (skipped, skipped_in_row,
/// unlabelled). `step` is the number of the step, for the message.
Decision judge(const config::TrainingConfig& config, std::int64_t step,
               const StepResult& result, RunState& state);

}  // namespace osdn::train
