#include "osdn/eval/token_row.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "osdn/eval/python_text.h"

namespace osdn::eval {
namespace {

using Ids = std::vector<std::int32_t>;

struct Split {
  Ids context, continuation;
};

Split split(const tokenizer::Tokenizer& tokenizer, std::string_view context,
            const std::string& continuation, std::int32_t prefix,
            bool& empty_continuation) {
  if (context.empty()) return {{prefix}, tokenizer.encode(continuation)};
  Ids whole = tokenizer.encode(std::string(context) + continuation);
  Ids alone = tokenizer.encode(context);
  if (whole.size() <= alone.size()) {
    empty_continuation = true;
    return {std::move(alone), tokenizer.encode(continuation)};
  }
  const auto cut = whole.begin() + std::ssize(alone);
  return {{whole.begin(), cut}, {cut, whole.end()}};
}

}  // namespace

TokenRow token_row(const tokenizer::Tokenizer& tokenizer,
                   const Request& request, bool bos, std::int32_t prefix,
                   const std::optional<std::int64_t>& max_len) {
  TokenRow row;
  if (request.continuation.empty()) return row;
  const std::string_view context = strip_right(request.context);
  const std::string continuation =
      request.context.substr(context.size()) + request.continuation;
  Split parts =
      split(tokenizer, context, continuation, prefix, row.empty_continuation);
  if (parts.continuation.empty()) {
    row.empty_continuation = true;
    return row;
  }
  const auto begin = tokenizer.bos_id();
  if (bos && begin &&
      (parts.context.empty() || parts.context.front() != *begin)) {
    parts.context.insert(parts.context.begin(), *begin);
  }
  if (parts.context.empty()) parts.context = {prefix};
  auto scored = std::ssize(parts.continuation);
  row.tokens = std::move(parts.context);
  row.tokens.insert(row.tokens.end(), parts.continuation.begin(),
                    parts.continuation.end());
  if (max_len && row.input_length() > *max_len) {
    row.truncated = true;
    row.tokens.erase(row.tokens.begin(), row.tokens.end() - *max_len - 1);
    scored = std::min<std::ptrdiff_t>(scored, *max_len);
  }
  row.first_scored = std::ssize(row.tokens) - 1 - scored;
  return row;
}

}  // namespace osdn::eval
