#include "osdn/train/compute_choice.h"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/ops/gpu.h"

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
  const ops::Gpu& gpu = ops::gpu();
  if (training.device == "cuda" && !gpu.usable) {
    throw Error(concat("training.device is \"cuda\", but no GPU can be used: ",
                       gpu.why_not, "; use \"cpu\" or \"auto\""),
                ExitCode::kUsage);
  }
  ComputeChoice choice;
  choice.device = training.device;
  if (training.device == "auto") {
    choice.device = gpu.usable && training.dtype != "fp64" ? "cuda" : "cpu";
  }
  const bool on_gpu = choice.device == "cuda";
  if (training.dtype == "bf16" && !on_gpu) {
    throw Error(
        concat("training.dtype is \"bf16\", which needs a GPU, and none "
               "can be used: ",
               gpu.why_not, "; use \"fp32\", \"fp64\" or \"auto\""),
        ExitCode::kUsage);
  }
  if (training.dtype == "fp64" && on_gpu) {
    throw Error(
        "training.dtype is \"fp64\", which needs the CPU; use \"bf16\" or "
        "\"fp32\", or the device \"cpu\"",
        ExitCode::kUsage);
  }
  choice.dtype = training.dtype != "auto" ? training.dtype
                 : on_gpu                 ? "bf16"
                                          : "fp32";
  choice.threads = training.threads > 0 ? training.threads : usable_cores();
  return choice;
}

}  // namespace osdn::train
