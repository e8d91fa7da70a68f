#include "osdn/train/compute_choice.h"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

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
  if (training.device == "cuda") {
    throw Error(
        "training.device is \"cuda\", but this osdn was built without training "
        "on a GPU; use \"cpu\" or \"auto\"",
        ExitCode::kUsage);
  }
  if (training.dtype == "bf16") {
    throw Error(
        "training.dtype is \"bf16\", which needs a GPU, and this osdn trains "
        "on the CPU; use \"fp32\", \"fp64\" or \"auto\"",
        ExitCode::kUsage);
  }
  ComputeChoice choice;
  choice.device = "cpu";
  choice.dtype = training.dtype == "auto" ? "fp32" : training.dtype;
  choice.threads = training.threads > 0 ? training.threads : usable_cores();
  return choice;
}

}  // namespace osdn::train
