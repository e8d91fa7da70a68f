#pragma once
// The update and the global norm on a GPU: kernels/adamw over all tensors at a
// time. Nothing here waits for the GPU but global_norm.

#include <ATen/core/Tensor.h>

#include <vector>

#include "kernels/adamw/adamw.cuh"

namespace osdn::optim {

/// One parameter on the device. `copy` is undefined where the master itself is
/// computed with.
struct DeviceSlot {
  at::Tensor master, exp_avg, exp_avg_sq;
  at::Tensor gradient;  ///< fp32 or bf16, undefined: zeros
  at::Tensor copy;      ///< bf16
  double weight_decay = 0;
};

struct DeviceUpdate {
  double lr = 0;
  double c1 = 1;  ///< 1 - product of beta1
  double c2 = 1;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-15;
  double grad_scale = 1;
};

double global_norm_cuda(const std::vector<DeviceSlot>& slots);
void adamw_cuda(const std::vector<DeviceSlot>& slots,
                const DeviceUpdate& update);

}  // namespace osdn::optim
