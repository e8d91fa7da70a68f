#include "osdn/ops/to_device.h"

namespace osdn::ops {

at::Tensor to_device(const at::Tensor& host, at::Device device) {
  if (device.is_cpu()) return host;
  return host.pin_memory().to(device, /*non_blocking=*/true);
}

}  // namespace osdn::ops
