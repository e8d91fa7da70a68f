#include "osdn/train/compute_choice.h"

#include <iterator>

#include "osdn/dist/cores.h"

namespace osdn::train {

ComputeChoice choose_compute(const config::TrainingConfig& training,
                             std::int64_t cores) {
  ComputeChoice choice;
  choice.compute = ops::choose_compute(training.device, training.dtype,
                                       {"training.device", "training.dtype"});
  choice.threads = training.threads > 0 ? training.threads
                   : cores > 0          ? cores
                                        : std::ssize(dist::usable_cores());
  return choice;
}

}  // namespace osdn::train
