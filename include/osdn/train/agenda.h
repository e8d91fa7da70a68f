#pragma once
// What is due after a step: a progress line, a validation, a checkpoint.
// `last` tells that no step follows.

#include <cstdint>
#include <optional>

#include "osdn/config/config.h"

namespace osdn::train {

class Agenda {
 public:
  /// After a save that failed (a full disk) the next one is tried so many steps
  /// later, or when one is due anyway.
  static constexpr std::int64_t kRetrySteps = 20;

  /// `saved_step`: of the checkpoint that the run starts from; -1 for none.
  explicit Agenda(const config::Config& config, std::int64_t saved_step = -1);

  bool line_due(std::int64_t step, bool last) const;
  /// At multiples of training.validate_every and after the last step.
  bool validation_due(std::int64_t step, bool last) const;
  /// At multiples of checkpoint.every, after the last step, and when a retry
  /// is due.
  bool save_due(std::int64_t step, bool last) const;
  /// How many of them are due from this step to training.steps, both included.
  std::int64_t validations_from(std::int64_t step) const;
  std::int64_t saves_from(std::int64_t step) const;
  /// True when the state after this step is not on disk yet.
  bool unsaved(std::int64_t step) const { return step != saved_step_; }

  void saved(std::int64_t step);
  void save_failed(std::int64_t step);

 private:
  std::int64_t steps_;  ///< training.steps
  std::int64_t line_every_;
  std::int64_t validate_every_;
  std::int64_t save_every_;
  std::int64_t saved_step_;
  std::optional<std::int64_t> retry_step_;
};

}  // namespace osdn::train
