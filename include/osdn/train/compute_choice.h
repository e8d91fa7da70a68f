#pragma once
// What a run computes on and in, from training.device, .dtype and .threads.

#include <cstdint>

#include "osdn/config/config.h"
#include "osdn/ops/compute_choice.h"

namespace osdn::train {

struct ComputeChoice {
  ops::ComputeChoice compute;
  std::int64_t threads = 1;  ///< CPU threads
};

/// "auto" and 0 become what this machine and this build have. Throws Error
/// (kUsage) naming the key for what they have not. `cores`: what 0
/// threads become; 0: all that this process may run on.
ComputeChoice choose_compute(const config::TrainingConfig& training,
                             std::int64_t cores = 0);

}  // namespace osdn::train
