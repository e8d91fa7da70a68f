#include "osdn/ops/gpu.h"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "kernels/common/device_info.h"

namespace osdn::ops {
namespace {

/// Beside libtorch_cpu.so, where a LibTorch with CUDA has it.
std::string libtorch_cuda_path() {
  Dl_info info{};
  const void* inside = reinterpret_cast<const void*>(&at::globalContext);
  if (::dladdr(inside, &info) == 0 || info.dli_fname == nullptr) {
    return "libtorch_cuda.so";
  }
  return std::filesystem::path(info.dli_fname)
      .replace_filename("libtorch_cuda.so")
      .string();
}

/// The same bits every time, and sums in fp32 to the end.
void be_exact() {
  // Read by cuBLAS when it starts: its workspaces do not depend on the streams
  // in use, so neither do its sums.
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  at::Context& context = at::globalContext();
  context.setAllowBF16ReductionCuBLAS(false, true);
  // Softmax attention's backward has a faster version with atomics.
  context.setDeterministicAlgorithms(true, /*warn_only=*/true);
  // Debugging aid that comes with it: writing NaN into all new memory.
  context.setDeterministicFillUninitializedMemory(false);
}

Gpu look() {
  Gpu gpu;
  const kernels::DeviceInfo info = kernels::device_info();
  gpu.name = info.name;
  gpu.uuid = info.uuid;
  gpu.memory_bytes = info.memory_bytes;
  if (info.count == 0) {
    gpu.why_not = info.why_none;
    return gpu;
  }
  if (!info.supported) {
    gpu.why_not =
        "the kernels need compute capability 8.0 or later (9.0, H100 and "
        "H200, for full speed), and " +
        info.name + " has " + std::to_string(info.compute_capability / 10) +
        "." + std::to_string(info.compute_capability % 10);
    return gpu;
  }
  // Its static initialisers register the CUDA backend; it stays open.
  if (::dlopen(libtorch_cuda_path().c_str(), RTLD_NOW | RTLD_GLOBAL) ==
      nullptr) {
    gpu.why_not =
        std::string("LibTorch's CUDA part does not load: ") + ::dlerror();
    return gpu;
  }
  be_exact();
  gpu.usable = true;
  return gpu;
}

c10::DeviceAllocator& allocator() {
  return *c10::getDeviceAllocator(c10::DeviceType::CUDA);
}

}  // namespace

const Gpu& gpu() {
  static const Gpu found = look();
  return found;
}

GpuMemory gpu_memory() {
  GpuMemory memory;
  if (!gpu().usable || !allocator().initialized()) return memory;
  const auto stats = allocator().getDeviceStats(0);
  memory.now = stats.allocated_bytes[0].current;
  memory.peak = stats.allocated_bytes[0].peak;
  return memory;
}

void reset_gpu_memory_peak() {
  if (gpu().usable && allocator().initialized()) allocator().resetPeakStats(0);
}

void synchronize_gpu() {
  if (!gpu().usable) return;
  const c10::impl::VirtualGuardImpl guard(c10::DeviceType::CUDA);
  guard.synchronizeDevice(0);
}

void release_gpu_memory() {
  synchronize_gpu();
  if (gpu().usable && allocator().initialized()) allocator().emptyCache();
}

}  // namespace osdn::ops
