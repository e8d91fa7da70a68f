#include "osdn/synth/words.h"

#include <algorithm>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/hash.h"
#include "osdn/core/utf8.h"
#include "word_table.h"

namespace osdn::synth {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAsciiSpace = " \t\n\v\f\r";

/// The words between `separators`, ASCII white space around them dropped.
std::vector<std::string> words_between(std::string_view text,
                                       std::string_view separators) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end =
        std::min(text.find_first_of(separators), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t first = word.find_first_not_of(kAsciiSpace);
    if (first == std::string_view::npos) continue;
    word = word.substr(first, word.find_last_not_of(kAsciiSpace) - first + 1);
    words.emplace_back(word);
  }
  return words;
}

std::vector<std::string> read_words(const fs::path& path) {
  const std::string text = read_file(path);
  if (const auto bad = first_invalid_utf8(text)) {
    throw Error(concat(path.string(), ": offset ", *bad, ": is not UTF-8"),
                ExitCode::kBadInput);
  }
  return words_between(text, "\n");
}

/// Without words that stand twice, in order.
std::vector<std::string> of_split(const std::vector<std::string>& words,
                                  Split split, const std::string& where) {
  std::vector<std::string> kept;
  std::vector<std::string> sorted;
  for (const std::string& word : words) {
    const bool odd = (xxh3_64(word) & 1) != 0;
    if (split != Split::kAll && odd != (split == Split::kTest)) continue;
    const auto place = std::lower_bound(sorted.begin(), sorted.end(), word);
    if (place != sorted.end() && *place == word) continue;
    sorted.insert(place, word);
    kept.push_back(word);
  }
  if (kept.size() < 10) {
    throw Error(concat(where, ": ", kept.size(),
                       " words of the split are too "
                       "few; expected at least 10"),
                ExitCode::kBadInput);
  }
  return kept;
}

}  // namespace

Split split_from_name(std::string_view name) {
  if (name == "train") return Split::kTrain;
  if (name == "test") return Split::kTest;
  if (name == "all") return Split::kAll;
  throw Error(concat("split '", name, "' is not known; use train, test or all"),
              ExitCode::kUsage);
}

WordLists word_lists(const std::optional<fs::path>& folder, Split split) {
  if (!folder) {
    return {
        "built-in",
        of_split(words_between(kNouns, " "), split, "built-in nouns"),
        of_split(words_between(kAdjectives, " "), split, "built-in adjectives"),
        {}};
  }
  const fs::path nouns = *folder / "nounlist.txt";
  const fs::path adjectives = *folder / "adjectivelist.txt";
  return {folder->filename().empty() ? folder->parent_path().filename().string()
                                     : folder->filename().string(),
          of_split(read_words(nouns), split, nouns.string()),
          of_split(read_words(adjectives), split, adjectives.string()),
          {nouns, adjectives}};
}

const std::vector<std::string>& filler_words() {
  static const std::vector<std::string> words =
      words_between(kFillerWords, " ");
  return words;
}

}  // namespace osdn::synth
