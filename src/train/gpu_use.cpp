#include "osdn/train/gpu_use.h"

#include <c10/util/Exception.h>

#include <optional>

#include "osdn/arch/estimate.h"
#include "osdn/arch/memory.h"
#include "osdn/arch/peak_flops.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/ops/gpu.h"
#include "osdn/report/format.h"

namespace osdn::train {

namespace {

std::string gib(double bytes) {
  return report::format_fixed(bytes / (1 << 30), 1);
}

std::string gib(std::int64_t bytes) {
  return gib(static_cast<double>(bytes));
}

}  // namespace

std::string gpu_use(const config::Config& config, double tokens_per_s,
                    double peak_tflops) {
  const ops::GpuMemory memory = ops::gpu_memory();
  if (memory.peak == 0) {
    return "";
  }
  const std::optional<double> peak =
      peak_tflops > 0 ? peak_tflops * 1e12 : arch::peak_flops(ops::gpu().name);
  const double flops =
      arch::flops_per_token(config.model, config.data.context_length).total() *
      tokens_per_s;
  return concat(
      "at most ", gib(memory.peak), " of ", gib(ops::gpu().memory_bytes),
      " GiB of GPU memory, model FLOP utilisation ",
      peak ? concat(report::format_fixed(100 * flops / *peak, 1), " % of ",
                    report::format_si(*peak), "FLOP/s")
           : "n/a (the peak of this GPU is not known; --peak-tflops says it)");
}

void with_memory_advice(const config::Config& config,
                        const std::function<void()>& work) {
  try {
    work();
  } catch (const c10::OutOfMemoryError&) {
    const ops::GpuMemory memory = ops::gpu_memory();
    const arch::Pass pass =
        arch::pass_of(config, arch::Machine::kGpu,
                      config.training.dtype == "fp32" ? arch::Compute::kF32
                                                      : arch::Compute::kBF16);
    const arch::Memory estimate = arch::estimate_memory(config.model, pass);
    throw Error(
        concat("out of GPU memory: tensors held ", gib(memory.now), " of ",
               gib(ops::gpu().memory_bytes),
               " GiB when more was asked for. By the estimate, weights, "
               "gradients and moments take ",
               gib(estimate.weights + estimate.gradients + estimate.optimizer),
               " GiB, the activations of ", pass.tokens, " tokens ",
               gib(estimate.activations), " and temporaries ",
               gib(estimate.temporaries), " GiB. To need less, ",
               arch::memory_advice(config.training), "."),
        ExitCode::kFailure);
  }
}

}  // namespace osdn::train
