#pragma once
// Device memory for tests, with poison: a buffer is longer than asked for and
// the rest is checked for stray writes. Under the emulator it is host memory.

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#ifndef OSDN_CUDA_EMULATOR
#include <cuda_runtime.h>
#endif

namespace osdn::test {

#ifdef OSDN_CUDA_EMULATOR
inline void* device_allocate(std::size_t bytes) {
  return std::aligned_alloc(1024, (bytes + 1023) / 1024 * 1024);
}
inline void device_free(void* at) {
  std::free(at);
}
inline void device_copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) {  // an empty buffer has no address
    std::memcpy(to, from, bytes);
  }
}
inline void device_fill(void* at, int byte, std::size_t bytes) {
  std::memset(at, byte, bytes);
}
inline void device_synchronize() {}
#else
inline void require(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " +
                             cudaGetErrorString(status));
  }
}
inline void* device_allocate(std::size_t bytes) {
  void* at = nullptr;
  require(cudaMalloc(&at, bytes), "cudaMalloc");
  return at;
}
inline void device_free(void* at) {
  cudaFree(at);
}
inline void device_copy(void* to, const void* from, std::size_t bytes) {
  require(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
}
inline void device_fill(void* at, int byte, std::size_t bytes) {
  require(cudaMemset(at, byte, bytes), "cudaMemset");
}
inline void device_synchronize() {
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}
#endif

/// Owns device memory. The bytes behind the end are NaN and must stay so.
class DeviceBuffer {
 public:
  static constexpr std::size_t kGuard = 32768;

  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
    at_ = device_allocate(bytes + kGuard);
    poison();
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept { swap(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~DeviceBuffer() {
    if (at_ != nullptr) device_free(at_);
  }

  /// All bytes 0xff: NaN in every floating-point type.
  void poison() { device_fill(at_, 0xff, bytes_ + kGuard); }
  void fill_word(std::uint32_t word) {
    const std::vector<std::uint32_t> host((bytes_ + 3) / 4, word);
    device_copy(at_, host.data(), bytes_);
  }
  template <typename T>
  T* as() const {
    return static_cast<T*>(at_);
  }
  std::size_t bytes() const { return bytes_; }
  template <typename T>
  void upload(const std::vector<T>& host) {
    device_copy(at_, host.data(), host.size() * sizeof(T));
  }
  template <typename T>
  std::vector<T> download() const {
    std::vector<T> host(bytes_ / sizeof(T));
    device_copy(host.data(), at_, host.size() * sizeof(T));
    return host;
  }
  bool guard_is_whole() const {
    std::vector<unsigned char> guard(kGuard);
    device_copy(guard.data(), static_cast<unsigned char*>(at_) + bytes_,
                kGuard);
    for (const unsigned char byte : guard) {
      if (byte != 0xff) return false;
    }
    return true;
  }

 private:
  void swap(DeviceBuffer& other) {
    std::swap(at_, other.at_);
    std::swap(bytes_, other.bytes_);
  }
  void* at_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace osdn::test
