#pragma once
// The learning rate as a pure function of the step: no state, so a resume needs
// nothing but the step, and a schedule can be looked at without training.

#include <cstdint>

#include "osdn/config/config.h"

namespace osdn::config {

/// Learning rate of the update of step s = 0, 1, ... With w = warmup_steps,
/// N = total_steps, D = decay_steps and m = min_lr_ratio:
///
///   s < w       peak (s + 1) / w                     every kind
///   cosine      peak (m + (1 - m) (1 + cos(pi (s - w) / (N - w))) / 2)
///   linear      peak (1 - (1 - m) (s - w + 1) / (N - w))
///   wsd         peak; from s = N - D on
///               peak (1 - (1 - m) (s - (N - D) + 1) / D)
///   constant    peak, for ever
///
/// The cosine is the published recipe's. The last update, s = N - 1, and every
/// later step have exactly peak m (constant apart). A decay of zero length
/// (w = N, or D = 0) is legal: the floor then begins at s = N. Above zero at
/// step 0; throws Error for a negative step.
double learning_rate(const ScheduleConfig& schedule, double peak,
                     std::int64_t step);

}  // namespace osdn::config
