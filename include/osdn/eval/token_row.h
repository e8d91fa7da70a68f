#pragma once
// A log-likelihood request as tokens (eval.md 1, steps 1 to 6).

#include <cstdint>
#include <optional>
#include <vector>

#include "osdn/eval/request.h"
#include "osdn/tokenizer/tokenizer.h"

namespace osdn::eval {

/// What the model reads, and from where on it is scored. The logits of input
/// position i score tokens[i + 1].
struct TokenRow {
  std::vector<std::int32_t> tokens{};  ///< the last one is scored, not read
  std::int64_t first_scored = 0;       ///< input position; tokens - 1 at most
  bool truncated = false;
  bool empty_continuation = false;  ///< joint encoding left no token for it

  /// Input positions; 0 for an empty continuation, which scores 0.
  std::int64_t input_length() const {
    return tokens.empty() ? 0 : static_cast<std::int64_t>(tokens.size()) - 1;
  }
  bool operator==(const TokenRow&) const = default;
};

/// Context and continuation are encoded together and cut by the length of the
/// context's own tokens; white space at the context's end counts to the
/// continuation. An empty context is `prefix` alone. With `bos` the tokenizer's
/// begin token stands in front, once. More than max_len + 1 tokens lose their
/// first ones.
TokenRow token_row(const tokenizer::Tokenizer& tokenizer,
                   const Request& request, bool bos, std::int32_t prefix,
                   const std::optional<std::int64_t>& max_len);

}  // namespace osdn::eval
