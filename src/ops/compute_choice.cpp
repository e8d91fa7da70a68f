#include "osdn/ops/compute_choice.h"

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/ops/gpu.h"

namespace osdn::ops {
namespace {

bool one_of(const std::string& value,
            std::initializer_list<const char*> choices) {
  for (const char* choice : choices) {
    if (value == choice) return true;
  }
  return false;
}

void check_names(const std::string& device, const std::string& dtype,
                 const ComputeKeys& keys) {
  if (!one_of(device, {"auto", "cpu", "cuda"})) {
    throw Error(concat(keys.device, " is \"", device,
                       "\"; use \"auto\", \"cpu\" or \"cuda\""),
                ExitCode::kUsage);
  }
  if (!one_of(dtype, {"auto", "fp32", "fp64", "bf16"})) {
    throw Error(
        concat(keys.dtype, " is \"", dtype,
               "\"; use \"auto\", \"fp32\", \"fp64\" (on a CPU) or \"bf16\" "
               "(on a GPU)"),
        ExitCode::kUsage);
  }
}

}  // namespace

ComputeChoice choose_compute(const std::string& device,
                             const std::string& dtype,
                             const ComputeKeys& keys) {
  check_names(device, dtype, keys);
  const Gpu& found = gpu();
  if (device == "cuda" && !found.usable) {
    throw Error(concat(keys.device, " is \"cuda\", but no GPU can be used: ",
                       found.why_not, "; use \"cpu\" or \"auto\""),
                ExitCode::kUsage);
  }
  const bool on_gpu =
      device == "cuda" || (device == "auto" && found.usable && dtype != "fp64");
  if (dtype == "bf16" && !on_gpu) {
    throw Error(concat(keys.dtype, " is \"bf16\", which needs a GPU, and ",
                       device == "cpu" ? concat(keys.device, " is \"cpu\"")
                                       : "none can be used: " + found.why_not,
                       "; use \"fp32\", \"fp64\" or \"auto\""),
                ExitCode::kUsage);
  }
  if (dtype == "fp64" && on_gpu) {
    throw Error(concat(keys.dtype,
                       " is \"fp64\", which needs the CPU; use \"bf16\" or "
                       "\"fp32\", or the device \"cpu\""),
                ExitCode::kUsage);
  }
  ComputeChoice choice;
  choice.device = on_gpu ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
  choice.device_name = on_gpu ? "cuda" : "cpu";
  choice.dtype_name = dtype != "auto" ? dtype : on_gpu ? "bf16" : "fp32";
  choice.dtype = choice.dtype_name == "fp64"   ? at::kDouble
                 : choice.dtype_name == "bf16" ? at::kBFloat16
                                               : at::kFloat;
  return choice;
}

}  // namespace osdn::ops
