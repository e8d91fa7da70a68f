#pragma once
// What GPU there is. No CUDA header is needed.

#include <cstdint>
#include <string>

namespace osdn::kernels {

struct DeviceInfo {
  int count = 0;           ///< GPUs that the driver shows
  std::string why_none{};  ///< one clause, when count is 0
  // Of device 0.
  std::string name{};
  std::string uuid{};  ///< "GPU-" and 32 hexadecimal digits with dashes
  std::int64_t memory_bytes = 0;
  int compute_capability = 0;  ///< 90 for 9.0
  /// The kernels of this build run on it.
  bool supported = false;
};

/// Never throws: a missing driver is an answer.
DeviceInfo device_info();

/// The GPU of this process runs code for sm_90a: the matrix units' kernels.
/// Other GPUs from compute capability 8.0 on take the plain versions, compiled
/// from PTX by the driver when they are first used.
bool runs_hopper_code();

}  // namespace osdn::kernels
