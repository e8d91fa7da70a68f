#pragma once
// How a document longer than the model's window is scored: disjoint blocks, so
// that each token is scored once.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace osdn::eval {

/// Positions in a document's tokens t[0..N). The input is t[input_begin ..
/// input_end), where position -1 stands for the prefix token; token i is scored
/// by the logits of input position i - 1, for i in [score_begin, score_end).
struct RollingWindow {
  std::int64_t input_begin = 0;
  std::int64_t input_end = 0;
  std::int64_t score_begin = 0;
  std::int64_t score_end = 0;
  bool operator==(const RollingWindow&) const = default;

  std::int64_t input_length() const { return input_end - input_begin; }
  std::int64_t scored() const { return score_end - score_begin; }
  /// Where in the input the logits of the first scored token are.
  std::int64_t first_logit() const { return score_begin - 1 - input_begin; }
};

/// The windows of N tokens: the first scores up to max_len tokens behind the
/// prefix token, each further one the next max_len tokens behind the token
/// before them; the last, short block is right-aligned: its input is the
/// max_len tokens that end one before the document's end. No tokens give no
/// window; max_len absent gives one. Throws Error for max_len < 1.
std::vector<RollingWindow> rolling_windows(std::int64_t tokens,
                                           std::optional<std::int64_t> max_len);

/// The input tokens of a window.
std::vector<std::int32_t> window_input(const RollingWindow& window,
                                       std::span<const std::int32_t> tokens,
                                       std::int32_t prefix);

}  // namespace osdn::eval
