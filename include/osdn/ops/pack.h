#pragma once
// Many tensors into one flat tensor.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace osdn::ops {

struct PackedPart {
  at::Tensor from;         ///< any shape; undefined: zeros
  std::int64_t begin = 0;  ///< in the flat tensor, elements
  std::int64_t numel = 0;
};

/// flat[begin, begin + numel) = from for each part, converted to flat's dtype.
/// flat: [n], contiguous, on the parts' device; on a GPU bf16 or fp32, as the
/// parts are, and few launches for all.
void pack(const at::Tensor& flat, const std::vector<PackedPart>& parts);

}  // namespace osdn::ops
