#include "osdn/train/compute_choice.h"

#include <algorithm>

#include "osdn/dist/cores.h"

namespace osdn::train {

ComputeChoice choose_compute(const config::TrainingConfig& training,
                             std::int64_t sharers) {
  ComputeChoice choice;
  choice.compute = ops::choose_compute(training.device, training.dtype,
                                       {"training.device", "training.dtype"});
  choice.threads = training.threads;
  if (choice.threads == 0) {
    const auto cores = static_cast<std::int64_t>(dist::usable_cores().size());
    choice.threads = std::max<std::int64_t>(1, cores / sharers);
  }
  return choice;
}

}  // namespace osdn::train
