#pragma once
// The stream that work on a GPU goes to. No CUDA header is included: it comes
// through LibTorch's device-neutral guard.

#include <c10/core/Device.h>

struct CUstream_st;

namespace osdn::ops {

/// The stream that work on the device goes to now; the same type as
/// cudaStream_t.
CUstream_st* current_stream(c10::Device device);

}  // namespace osdn::ops
