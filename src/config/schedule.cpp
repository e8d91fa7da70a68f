#include "osdn/config/schedule.h"

#include <cmath>
#include <numbers>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::config {

double learning_rate(const ScheduleConfig& schedule, double peak,
                     std::int64_t step) {
  if (step < 0) {
    throw Error(concat("a learning rate was asked for step ", step,
                       "; steps count from 0"));
  }
  const std::int64_t warmup = schedule.warmup_steps;
  if (step < warmup) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup);
  }
  if (schedule.kind == "constant") {
    return peak;
  }
  const std::int64_t total = schedule.total_steps;
  const bool wsd = schedule.kind == "wsd";
  const std::int64_t decay = wsd ? schedule.decay_steps : total - warmup;
  const std::int64_t into_decay = step - (total - decay);
  if (step >= total || (decay > 0 && step == total - 1)) {
    return peak * schedule.min_lr_ratio;
  }
  if (into_decay < 0) {
    return peak;
  }
  const double floor = schedule.min_lr_ratio;
  if (schedule.kind == "cosine") {
    const double progress =
        static_cast<double>(into_decay) / static_cast<double>(decay);
    return peak *
           (floor + (1.0 - floor) *
                        (1.0 + std::cos(std::numbers::pi * progress)) / 2.0);
  }
  if (schedule.kind == "linear" || wsd) {
    const double progress =
        static_cast<double>(into_decay + 1) / static_cast<double>(decay);
    return peak * (1.0 - (1.0 - floor) * progress);
  }
  throw Error(concat("schedule kind \"", schedule.kind,
                     "\" is not known; use cosine, linear, wsd or constant"),
              ExitCode::kUsage);
}

}  // namespace osdn::config
