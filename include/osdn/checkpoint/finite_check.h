#pragma once
// Is a state fit to be kept: a scan for NaN and infinity.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "osdn/core/tensor_view.h"

namespace osdn::checkpoint {

struct NonFinite {
  std::string tensor;
  std::int64_t index = 0;  ///< of the first such element, row-major
  double value = 0;
};

/// The first NaN or infinity in the given order; integer tensors have none.
std::optional<NonFinite> find_non_finite(std::span<const TensorView> tensors);

}  // namespace osdn::checkpoint
