#pragma once
// The words that names, keys and sentences of the generators are made of.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace osdn::synth {

/// Which half of the words: test names are unseen in training.
enum class Split { kTrain, kTest, kAll };

/// "train", "test", "all"; throws Error (kUsage) naming these otherwise.
Split split_from_name(std::string_view name);

struct WordLists {
  std::string name{};  ///< "built-in", or the folder's
  std::vector<std::string> nouns{};
  std::vector<std::string> adjectives{};
  std::vector<std::filesystem::path> files{};  ///< that they come from
};

/// The lists of the project, or nounlist.txt and adjectivelist.txt of a folder:
/// a word a line, white space around it dropped, empty lines passed over. Of a
/// split those words whose XXH3-64 is even (train) or odd (test). Throws Error
/// (kBadInput) for a file that is missing, not UTF-8, or too short to give ten
/// words of the split.
WordLists word_lists(const std::optional<std::filesystem::path>& folder,
                     Split split);

/// Small words that filler sentences are made of: articles, verbs, adverbs.
/// None of them is in the built-in lists.
const std::vector<std::string>& filler_words();

}  // namespace osdn::synth
