#include "osdn/ops/documents.h"

#include <string>

#include "osdn/core/error.h"

namespace osdn::ops {

Documents::Documents(std::vector<std::int64_t> cu_seqlens)
    : cu_seqlens_(std::move(cu_seqlens)) {
  if (cu_seqlens_.size() < 2 || cu_seqlens_.front() != 0) {
    throw Error(
        "cu_seqlens needs at least two entries and must start with 0 "
        "(got " +
        std::to_string(cu_seqlens_.size()) + " entries)");
  }
  for (std::size_t i = 1; i < cu_seqlens_.size(); ++i) {
    if (cu_seqlens_[i] < cu_seqlens_[i - 1]) {
      throw Error("cu_seqlens[" + std::to_string(i) +
                  "] = " + std::to_string(cu_seqlens_[i]) +
                  " is below cu_seqlens[" + std::to_string(i - 1) +
                  "] = " + std::to_string(cu_seqlens_[i - 1]) +
                  "; boundaries must not decrease");
    }
  }
}

Documents Documents::single(std::int64_t tokens) {
  return Documents({0, tokens});
}

}  // namespace osdn::ops
