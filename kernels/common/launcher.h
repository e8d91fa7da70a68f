#pragma once
// What every launcher's parameter struct is made of. No CUDA header is needed,
// so code that is built without CUDA sees the same declarations.

#include <cstdint>

struct CUstream_st;

namespace osdn::kernels {

/// The same type as cudaStream_t.
using Stream = CUstream_st*;

/// Element type of an operator's large tensors.
enum class Element : int { kBF16, kF32 };

constexpr std::int64_t bytes_of(Element element) {
  return element == Element::kBF16 ? 2 : 4;
}

}  // namespace osdn::kernels
