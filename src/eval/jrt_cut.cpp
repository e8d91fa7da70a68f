#include <algorithm>

#include "osdn/eval/jrt.h"
#include "osdn/eval/python_text.h"

namespace osdn::eval {
namespace {

/// What the cut looks for. A list gives its first element.
std::vector<std::string> cut_keys(JrtSet set, const JrtDocument& document) {
  switch (set) {
    case JrtSet::kFda:
    case JrtSet::kSwde:
      return {document.key, document.value};
    case JrtSet::kSquad:
      return {document.value};
    case JrtSet::kNq:
      return {document.answers.empty() ? std::string()
                                       : document.answers.front()};
    default:
      return {};
  }
}

std::string& cut_field(JrtSet set, JrtDocument& document) {
  const bool in_text =
      set == JrtSet::kFda || set == JrtSet::kSwde || set == JrtSet::kSquad;
  return in_text ? document.text : document.context;
}

/// Where the answer stands in the text, in bytes; nothing if it does not.
std::optional<std::size_t> place_of_answer(
    std::string_view text, const std::vector<std::string>& keys,
    const std::vector<std::string>& alternatives) {
  if (keys.empty()) return 0;
  std::optional<std::size_t> first;
  for (const std::string& key : keys) {
    const auto found = find_ignoring_case(text, key);
    if (found && (!first || *found < *first)) first = found;
  }
  for (const std::string& answer : alternatives) {
    if (first) break;
    first = find_ignoring_case(text, answer);
  }
  return first;
}

std::int64_t token_count(const tokenizer::Tokenizer& tokenizer,
                         std::string_view text) {
  return static_cast<std::int64_t>(encode_with_bos(tokenizer, text).size());
}

/// The published sets' summary tells the answers.
std::string_view without_summary(std::string_view text) {
  return text.substr(0, text.find("Summary of information above..."));
}

}  // namespace

std::vector<std::int32_t> encode_with_bos(const tokenizer::Tokenizer& tokenizer,
                                          std::string_view text) {
  std::vector<std::int32_t> tokens = tokenizer.encode(text);
  if (const auto bos = tokenizer.bos_id()) tokens.insert(tokens.begin(), *bos);
  return tokens;
}

std::vector<std::int32_t> window_around(const std::vector<std::int32_t>& tokens,
                                        std::int64_t p, std::int64_t desired) {
  const auto size = static_cast<std::int64_t>(tokens.size());
  const std::int64_t begin =
      std::min(size, std::max<std::int64_t>(0, p - desired / 2));
  const std::int64_t end =
      std::max(begin, std::min(size, p + desired - (p - begin)));
  return {tokens.begin() + begin, tokens.begin() + end};
}

bool cut_around_answer(JrtSet set, const tokenizer::Tokenizer& tokenizer,
                       std::int64_t desired, JrtDocument& document) {
  std::string& field = cut_field(set, document);
  std::string_view text = field;
  if (set == JrtSet::kSwde) text = without_summary(text);
  text = strip(text);
  const std::vector<std::string> keys = cut_keys(set, document);
  for (const std::string& key : keys) {
    if (code_point_length(key) <= 1) return false;
  }
  const auto place = place_of_answer(text, keys, document.alt_answers);
  const std::size_t length = code_point_length(text);
  // Without an answer, as the original: text[:-1], the window at the end.
  const std::string_view before =
      place ? text.substr(0, *place)
            : slice(text, 0, std::max<std::size_t>(length, 1) - 1);
  std::int64_t p = token_count(tokenizer, before);
  if (!place && document.tok_pos && p > desired) p = *document.tok_pos;
  field = tokenizer.decode(
      window_around(encode_with_bos(tokenizer, text), p, desired));
  return true;
}

bool cut_as_osdn_authors(JrtSet set, bool twice,
                         const tokenizer::Tokenizer& tokenizer,
                         std::int64_t desired, JrtDocument& document) {
  if (code_point_length(document.value) <= 1) return false;
  std::string text = document.text;
  if (twice && set != JrtSet::kFda) text += "\n" + document.text;
  const std::vector<std::int32_t> tokens = encode_with_bos(tokenizer, text);
  const auto place = find_ignoring_case(text, document.value);
  const auto size = static_cast<std::int64_t>(tokens.size());
  const std::vector<std::int32_t> window =
      place
          ? window_around(
                tokens, token_count(tokenizer, text.substr(0, *place)), desired)
          : std::vector<std::int32_t>(tokens.end() - std::min(size, desired),
                                      tokens.end());
  document.text = tokenizer.decode(window);
  return true;
}

}  // namespace osdn::eval
