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
/// (kUsage) naming the key for what they have not. `sharers`: ranks that may
/// run on the same cores and share them out.
ComputeChoice choose_compute(const config::TrainingConfig& training,
                             std::int64_t sharers = 1);

}  // namespace osdn::train
