#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "osdn/eval/longbench_metrics.h"
#include "osdn/eval/python_text.h"

namespace osdn::eval {
namespace {

using Counts = std::map<std::u32string, std::size_t>;

bool is_ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') ||
         (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

/// Length of the article that begins here, 0 if none does. It ends where a
/// letter does not go on: "the" of the\u2019s is one.
std::size_t article_at(std::u32string_view text, std::size_t at) {
  constexpr std::u32string_view kArticles[] = {U"an", U"a", U"the"};
  if (at > 0 && is_word_character(text[at - 1])) return 0;
  for (const std::u32string_view article : kArticles) {
    const std::size_t end = at + article.size();
    if (text.substr(at).starts_with(article) &&
        (end == text.size() || !is_word_character(text[end]))) {
      return article.size();
    }
  }
  return 0;
}

/// The words that count, with how often they occur.
Counts words_of(std::string_view text) {
  std::string plain = lower(text);
  std::erase_if(plain, is_ascii_punctuation);
  const std::u32string letters = code_points(plain);
  Counts counts;
  std::u32string word;
  const auto end_word = [&] {
    if (!word.empty()) ++counts[std::exchange(word, {})];
  };
  for (std::size_t at = 0; at < letters.size(); ++at) {
    if (const std::size_t length = article_at(letters, at)) {
      end_word();
      at += length - 1;
    } else if (is_white_space(letters[at])) {
      end_word();
    } else {
      word += letters[at];
    }
  }
  end_word();
  return counts;
}

std::size_t total(const Counts& counts) {
  std::size_t sum = 0;
  for (const auto& [word, count] : counts) sum += count;
  return sum;
}

}  // namespace

double qa_f1(std::string_view output, std::string_view answer) {
  const Counts found = words_of(output);
  const Counts wanted = words_of(answer);
  std::size_t common = 0;
  for (const auto& [word, count] : found) {
    const auto other = wanted.find(word);
    if (other != wanted.end()) common += std::min(count, other->second);
  }
  if (common == 0) return 0;
  const auto hits = static_cast<double>(common);
  const double precision = hits / static_cast<double>(total(found));
  const double recall = hits / static_cast<double>(total(wanted));
  return 2 * precision * recall / (precision + recall);
}

}  // namespace osdn::eval
