#pragma once
// Tokens that the delta rule and the preconditioner work through at a time.

#include <algorithm>
#include <cstdint>

namespace osdn::ops {

/// Counted from each document's start, or from where its state was taken up:
/// a document that is cut elsewhere than at a multiple rounds differently.
inline constexpr std::int64_t kChunk = 64;

/// The piece to cut a document into where a pass is to hold so many tokens:
/// whole chunks, at least one, so that no rounding depends on the number.
constexpr std::int64_t whole_chunks(std::int64_t tokens) {
  return std::max(kChunk, tokens - tokens % kChunk);
}

}  // namespace osdn::ops
