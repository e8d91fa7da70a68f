#pragma once
// Functions of the CUDA driver that the runtime has no counterpart of, found in
// the driver that is loaded: programs start on machines without one.

#include <cuda.h>
#include <cuda_runtime.h>

#include <string>

#include "cuda_check.h"

namespace osdn::dist {

/// `function` gets the driver's `name`, as of CUDA 12.0.
template <typename F>
void find_in_driver(const char* name, F& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault,
                                         &result),
        concat("looking for ", name));
  if (result != cudaDriverEntryPointSuccess || found == nullptr) {
    throw Error(concat("the CUDA driver has no ", name));
  }
  function = reinterpret_cast<F>(found);
}

inline void check(CUresult result, const std::string& what) {
  if (result == CUDA_SUCCESS) return;
  throw Error(concat("CUDA failed in ", what, ": error ",
                     static_cast<int>(result), " of the driver"));
}

}  // namespace osdn::dist
