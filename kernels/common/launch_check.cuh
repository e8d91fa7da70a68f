#pragma once
// Checks after a launch and before it, for launchers. A failed launch throws;
// nothing here synchronises.

#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace osdn::kernels {

inline void check_cuda(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " +
                             cudaGetErrorString(status));
  }
}

/// To be called straight after a <<<>>> launch.
inline void check_launch(const char* kernel) {
  check_cuda(cudaGetLastError(), kernel);
}

/// Throws with a launcher's own `unsupported` reason.
inline void require_supported(const char* op, const char* reason) {
  if (reason != nullptr) {
    throw std::runtime_error(std::string(op) + ": " + reason);
  }
}

/// Blocks needed for `items` of `per_block` each, at most `limit`: kernels
/// with a limit loop over the rest.
inline unsigned grid_size(std::int64_t items, std::int64_t per_block,
                          std::int64_t limit = 0x7fffffff) {
  const std::int64_t blocks = (items + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < limit ? blocks : limit);
}

template <typename T>
bool is_aligned(const T* pointer, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

}  // namespace osdn::kernels
