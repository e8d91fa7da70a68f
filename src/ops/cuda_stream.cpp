#include "osdn/ops/cuda_stream.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace osdn::ops {

CUstream_st* current_stream(c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  return static_cast<CUstream_st*>(guard.getStream(device).native_handle());
}

}  // namespace osdn::ops
