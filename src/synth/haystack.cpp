#include "osdn/synth/haystack.h"

#include <algorithm>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/utf8.h"
#include "osdn/synth/draw.h"
#include "osdn/synth/words.h"

namespace osdn::synth {
namespace {

constexpr std::string_view kSpace = " \t\n\v\f\r";

/// What may stand behind a sentence's last mark: ASCII, and the curly quotes.
constexpr std::string_view kClosing[] = {"\"", "'",      ")",     "]",
                                         "}",  "\u2019", "\u201D"};

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (std::size_t at = text.find_first_not_of(kSpace);
       at != std::string_view::npos;) {
    const std::size_t end =
        std::min(text.find_first_of(kSpace, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = text.find_first_not_of(kSpace, end);
  }
  return words;
}

/// 2,000 sentences of 6 to 15 words.
Essay generated_essay() {
  const WordLists lists = word_lists(std::nullopt, Split::kAll);
  const std::vector<std::string>& small = filler_words();
  Xoshiro256 random = document_stream(0, "essay", 0);
  const auto any = [&](const std::vector<std::string>& words) {
    return words[static_cast<std::size_t>(random.below(words.size()))];
  };
  Essay essay{"generated", {}};
  for (int s = 0; s < 2000; ++s) {
    const std::int64_t length = draw_between(random, 6, 15);
    for (std::int64_t w = 0; w < length; ++w) {
      std::string word = random.below(3) > 0    ? any(small)
                         : random.below(3) == 0 ? any(lists.adjectives)
                                                : any(lists.nouns);
      if (w == 0) word[0] = static_cast<char>(word[0] - 'a' + 'A');
      if (w + 1 == length) word += '.';
      essay.words.push_back(std::move(word));
    }
  }
  return essay;
}

bool ends_sentence(std::string_view word) {
  for (bool closing = true; closing;) {
    closing = false;
    for (const std::string_view mark : kClosing) {
      if (word.ends_with(mark)) {
        word.remove_suffix(mark.size());
        closing = true;
      }
    }
  }
  return word.ends_with('.') || word.ends_with('!') || word.ends_with('?');
}

}  // namespace

Essay read_essay(const std::optional<std::filesystem::path>& file) {
  if (!file) return generated_essay();
  const std::string text = read_file(*file);
  if (const auto bad = first_invalid_utf8(text)) {
    throw Error(concat(file->string(), ": offset ", *bad, ": is not UTF-8"),
                ExitCode::kBadInput);
  }
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  const std::size_t begin =
      text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  Essay essay{file->filename().string(),
              words_of(std::string_view(text).substr(begin))};
  if (essay.words.empty()) {
    throw Error(concat(file->string(), ": holds no word; expected plain text"),
                ExitCode::kBadInput);
  }
  return essay;
}

std::string first_words(const Essay& essay, std::int64_t count) {
  std::string text;
  for (std::int64_t w = 0; w < count; ++w) {
    text += w > 0 ? " " : "";
    text += essay.words[static_cast<std::size_t>(w) % essay.words.size()];
  }
  return text;
}

std::vector<std::string> sentences(std::string_view text) {
  std::vector<std::string> out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == ' ' && ends_sentence(text.substr(begin, at - begin))) {
      out.emplace_back(text.substr(begin, at - begin));
      begin = at + 1;
    }
  }
  if (begin < text.size()) out.emplace_back(text.substr(begin));
  return out;
}

}  // namespace osdn::synth
