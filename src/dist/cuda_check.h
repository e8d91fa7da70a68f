#pragma once
// Errors of CUDA's own as Errors.

#include <cuda_runtime.h>

#include <string>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::dist {

inline void check(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // the next caller starts clean
  throw Error(concat("CUDA failed in ", what, ": ", cudaGetErrorString(error)));
}

}  // namespace osdn::dist
