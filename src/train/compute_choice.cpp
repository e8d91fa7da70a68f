#include "osdn/train/compute_choice.h"

#include <sched.h>

#include <algorithm>
#include <thread>

namespace osdn::train {

namespace {

// Cores that this process may run on; a launcher can have bound it to few.
std::int64_t usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (::sched_getaffinity(0, sizeof(cores), &cores) == 0) {
    return std::max(1, CPU_COUNT(&cores));
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

ComputeChoice choose_compute(const config::TrainingConfig& training) {
  ComputeChoice choice;
  choice.compute = ops::choose_compute(training.device, training.dtype,
                                       {"training.device", "training.dtype"});
  choice.threads = training.threads > 0 ? training.threads : usable_cores();
  return choice;
}

}  // namespace osdn::train
