#pragma once
// Launching from the host: every attribute call and launch is checked, and an
// error names the kernel.

#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/common/launcher.h"

#ifndef OSDN_CUDA_EMULATOR
#include <cuda_runtime.h>

#include "kernels/common/launch_check.cuh"
#endif

namespace osdn::kernels {

#ifdef OSDN_CUDA_EMULATOR

template <typename Args>
void launch(const char*, void (*kernel)(Args), std::int64_t blocks, int threads,
            std::int64_t shared_bytes, Stream, const Args& args) {
  if (blocks == 0) return;
  emulator::run_grid(blocks, threads, shared_bytes, [&] { kernel(args); });
}
inline int multiprocessors() {
  return 3;
}

#else

/// Starts kernel(args) on a one-dimensional grid; no blocks is no launch.
template <typename Args>
void launch(const char* name, void (*kernel)(Args), std::int64_t blocks,
            int threads, std::int64_t shared_bytes, Stream stream,
            const Args& args) {
  if (blocks == 0) return;
  if (blocks > 0x7fffffff) {
    throw std::runtime_error(std::string(name) + ": a grid of " +
                             std::to_string(blocks) +
                             " blocks passes the limit of 2147483647; split "
                             "the call");
  }
  if (shared_bytes > 48 * 1024) {
    check_cuda(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shared_bytes)),
               name);
  }
  Args copy = args;
  void* pointers[] = {&copy};
  check_cuda(cudaLaunchKernel(reinterpret_cast<const void*>(kernel),
                              dim3(static_cast<unsigned>(blocks)),
                              dim3(static_cast<unsigned>(threads)), pointers,
                              static_cast<std::size_t>(shared_bytes), stream),
             name);
}

/// Of the current device.
inline int multiprocessors() {
  int device = 0, count = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
      "cudaDeviceGetAttribute");
  return count;
}

#endif

}  // namespace osdn::kernels
