#pragma once
// Where a program computes, and in what precision.

#include <ATen/core/Tensor.h>

#include <string>

namespace osdn::ops {

struct ComputeChoice {
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
  std::string device_name;  ///< "cpu", "cuda"
  std::string dtype_name;   ///< "fp32", "fp64", "bf16"
};

/// How the two settings are called in errors.
struct ComputeKeys {
  std::string device;  ///< "training.device"
  std::string dtype;
};

/// device: "auto", "cpu" or "cuda"; dtype: "auto", "fp32", "fp64" or "bf16".
/// "auto" takes a GPU where one can be used, and bf16 on it. Throws Error
/// (kUsage) naming the key for what this machine or this build has not.
ComputeChoice choose_compute(const std::string& device,
                             const std::string& dtype, const ComputeKeys& keys);

}  // namespace osdn::ops
