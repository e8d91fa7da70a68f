#pragma once
// dist.bucket_mb in elements.

#include <cstdint>

#include "osdn/config/config.h"

namespace osdn::config {

/// From how many elements on a bucket of gradients is full, in
/// dist.reduce_dtype.
inline std::int64_t bucket_elements(const DistConfig& dist) {
  const double element = dist.reduce_dtype == "bf16" ? 2 : 4;
  return static_cast<std::int64_t>(dist.bucket_mb * 1e6 / element);
}

}  // namespace osdn::config
