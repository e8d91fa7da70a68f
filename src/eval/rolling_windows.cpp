#include "osdn/eval/rolling_windows.h"

#include <algorithm>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::eval {

std::vector<RollingWindow> rolling_windows(
    std::int64_t tokens, std::optional<std::int64_t> max_len) {
  const std::int64_t length =
      max_len.value_or(std::max<std::int64_t>(tokens, 1));
  if (length < 1) {
    throw Error(concat("a window of ", length, " tokens; expected 1 or more"),
                ExitCode::kUsage);
  }
  std::vector<RollingWindow> windows;
  for (std::int64_t begin = 0; begin < tokens;) {
    const std::int64_t end = begin + std::min(length, tokens - begin);
    // Inputs end one token before what they score; the first begins with the
    // prefix token, and is as short as the document if need be.
    const std::int64_t input_begin =
        std::max<std::int64_t>(end - 1 - length, -1);
    windows.push_back({input_begin, end - 1, begin, end});
    begin = end;
  }
  return windows;
}

std::vector<std::int32_t> window_input(const RollingWindow& window,
                                       std::span<const std::int32_t> tokens,
                                       std::int32_t prefix) {
  std::vector<std::int32_t> input;
  input.reserve(static_cast<std::size_t>(window.input_length()));
  for (std::int64_t i = window.input_begin; i < window.input_end; ++i) {
    input.push_back(i < 0 ? prefix : tokens[static_cast<std::size_t>(i)]);
  }
  return input;
}

}  // namespace osdn::eval
