#include "osdn/train/agenda.h"

namespace osdn::train {

namespace {

bool is_multiple(std::int64_t step, std::int64_t every) {
  return every > 0 && step % every == 0;
}

/// Multiples in [first, last], and `last`.
std::int64_t count_due(std::int64_t first, std::int64_t last,
                       std::int64_t every) {
  if (first > last) return 0;
  if (every <= 0) return 1;
  const std::int64_t multiples = last / every - (first - 1) / every;
  return multiples + (last % every == 0 ? 0 : 1);
}

}  // namespace

Agenda::Agenda(const config::Config& config, std::int64_t saved_step)
    : steps_(config.training.steps),
      line_every_(config.logging.every),
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

std::int64_t Agenda::validations_from(std::int64_t step) const {
  return validate_every_ > 0 ? count_due(step, steps_, validate_every_) : 0;
}

std::int64_t Agenda::saves_from(std::int64_t step) const {
  return count_due(step, steps_, save_every_);
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
