#pragma once
// The text that needles are hidden in.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace osdn::synth {

/// Words of running text. `name` is part of a result.
struct Essay {
  std::string name{};
  std::vector<std::string> words{};
};

/// A text file (UTF-8), or sentences that are generated, the same in every
/// call. White space separates words. Throws Error (kBadInput) for a file that
/// is missing, not UTF-8 or without a word.
Essay read_essay(const std::optional<std::filesystem::path>& file);

/// The first `count` words, from the beginning again where there are fewer,
/// joined by spaces.
std::string first_words(const Essay& essay, std::int64_t count);

/// A sentence ends behind a word whose last character, closing quotes and
/// brackets aside, is a full stop, an exclamation or a question mark. The
/// sentences joined by spaces are the text.
std::vector<std::string> sentences(std::string_view text);

}  // namespace osdn::synth
