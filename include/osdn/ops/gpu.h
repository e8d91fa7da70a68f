#pragma once
// The GPU that this process may compute on. LibTorch's CUDA part is opened at
// run time, so that one program serves machines with and without a GPU.

#include <cstdint>
#include <string>

namespace osdn::ops {

struct Gpu {
  bool usable = false;
  std::string why_not;  ///< when it is not usable: one clause
  std::string name;     ///< "NVIDIA H200"
  std::string uuid;     ///< the driver's name of this one card
  std::int64_t memory_bytes = 0;
};

/// Looks once, and on a machine with a GPU loads what computing on it takes;
/// later calls return the same answer.
const Gpu& gpu();

/// Bytes of GPU memory that tensors hold and held at most since the last
/// reset; 0 without a GPU.
struct GpuMemory {
  std::int64_t now = 0;
  std::int64_t peak = 0;
};
GpuMemory gpu_memory();
void reset_gpu_memory_peak();

/// Waits for all work on the GPU; nothing without one.
void synchronize_gpu();
/// Gives memory back that no tensor holds and LibTorch keeps for the next ones.
/// Waits for the GPU.
void release_gpu_memory();

}  // namespace osdn::ops
