#pragma once
// Tokens that the delta rule and the preconditioner work through at a time.

#include <cstdint>

namespace osdn::ops {

/// Counted from each document's start, or from where its state was taken up:
/// a document that is cut elsewhere than at a multiple rounds differently.
inline constexpr std::int64_t kChunk = 64;

}  // namespace osdn::ops
