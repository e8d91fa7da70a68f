#include <cuda_runtime.h>

#include "kernels/common/device_info.h"

namespace osdn::kernels {

namespace {

std::string uuid_text(const cudaUUID_t& uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

DeviceInfo device_info() {
  DeviceInfo info;
  cudaError_t error = cudaGetDeviceCount(&info.count);
  cudaDeviceProp properties{};
  if (error == cudaSuccess && info.count > 0) {
    error = cudaGetDeviceProperties(&properties, 0);
  }
  if (error != cudaSuccess || info.count < 1) {
    info.count = 0;
    info.why_none = error == cudaSuccess ? "the driver shows no GPU"
                                         : cudaGetErrorString(error);
    cudaGetLastError();  // the next caller starts clean
    return info;
  }
  info.name = properties.name;
  info.uuid = uuid_text(properties.uuid);
  info.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  info.compute_capability = properties.major * 10 + properties.minor;
  info.supported = info.compute_capability >= 80;
  return info;
}

bool runs_hopper_code() {
  static const bool answer = device_info().compute_capability == 90;
  return answer;
}

}  // namespace osdn::kernels
