#pragma once
// From tensors to the launchers' pointers: what every *_cuda.cpp needs.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/common/launcher.h"
#include "osdn/ops/cuda_stream.h"

namespace osdn::ops {

inline kernels::Stream current_stream(const at::Tensor& tensor) {
  return current_stream(tensor.device());
}

kernels::Element element_of(const at::Tensor& tensor);

/// Uninitialised device memory beside `like`; 512-byte aligned, freed in stream
/// order.
at::Tensor device_bytes(std::int64_t count, const at::Tensor& like);

/// Data pointer of a tensor, null for an undefined one.
inline void* pointer(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr() : nullptr;
}
inline float* floats(const at::Tensor& tensor) {
  return static_cast<float*>(pointer(tensor));
}

/// An uninitialised tensor like `tensor`, undefined for an undefined one.
at::Tensor empty_beside(const at::Tensor& tensor);

}  // namespace osdn::ops
