#include "osdn/train/step_policy.h"

#include <cmath>

#include "osdn/core/concat.h"

namespace osdn::train {

namespace {

std::string what_is_wrong(const StepResult& result) {
  if (!std::isfinite(result.loss)) {
    return concat("loss is ", result.loss);
  }
  return concat("gradient norm is ", result.grad_norm, " at loss ",
                result.loss);
}

}  // namespace

Decision judge(const config::TrainingConfig& config, std::int64_t step,
               const StepResult& result, RunState& state) {
  switch (result.outcome) {
    case StepOutcome::kUpdated:
      state.skipped_in_row = 0;
      return {};
    case StepOutcome::kUnlabelled:
      state.unlabelled += 1;
      return {Verdict::kGoOn,
              concat("step ", step,
                     ": no label is valid, so there is no update; look at "
                     "data.mask_document_end and at the documents' lengths (",
                     state.unlabelled, " such steps so far)")};
    case StepOutcome::kNonFinite:
      break;
  }
  if (config.non_finite == "stop") {
    return {Verdict::kStopHere,
            concat("step ", step, ": ", what_is_wrong(result),
                   "; weights and moments are those of step ", step - 1,
                   ". training.non_finite = \"skip\" would go on with the next "
                   "batch, a lower optimizer.lr may avoid it")};
  }
  state.skipped += 1;
  state.skipped_in_row += 1;
  const std::string message =
      concat("step ", step, ": ", what_is_wrong(result),
             ", the update is skipped (", state.skipped_in_row,
             " in a row, training.max_skips = ", config.max_skips, "; ",
             state.skipped, " in all)");
  if (state.skipped_in_row >= config.max_skips) {
    return {Verdict::kStop, message};
  }
  return {Verdict::kGoOn, message};
}

}  // namespace osdn::train
