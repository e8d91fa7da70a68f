#include "osdn/train/agenda.h"

namespace osdn::train {

namespace {

bool is_multiple(std::int64_t step, std::int64_t every) {
  return every > 0 && step % every == 0;
}

}  // namespace

Agenda::Agenda(const config::Config& config, std::int64_t saved_step)
    : line_every_(config.logging.every),
      validate_every_(
          config.data.validation.empty() ? 0 : config.training.validate_every),
      save_every_(config.checkpoint.every),
      saved_step_(saved_step) {}

bool Agenda::line_due(std::int64_t step, bool last) const {
  return last || is_multiple(step, line_every_);
}

bool Agenda::validation_due(std::int64_t step, bool last) const {
  return validate_every_ > 0 && (last || is_multiple(step, validate_every_));
}

bool Agenda::save_due(std::int64_t step, bool last) const {
  return unsaved(step) && (last || is_multiple(step, save_every_) ||
                           (retry_step_ && step >= *retry_step_));
}

void Agenda::saved(std::int64_t step) {
  saved_step_ = step;
  retry_step_.reset();
}

void Agenda::save_failed(std::int64_t step) {
  if (step == saved_step_) saved_step_ = -1;
  retry_step_ = step + kRetrySteps;
}

}  // namespace osdn::train
