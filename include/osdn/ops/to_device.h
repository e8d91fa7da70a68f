#pragma once
// Host tensors on their way to a device.

#include <ATen/core/Tensor.h>

namespace osdn::ops {

/// `host` on `device`. To a GPU it goes through pinned memory, so that the host
/// does not wait for the work that is queued there.
at::Tensor to_device(const at::Tensor& host, at::Device device);

}  // namespace osdn::ops
