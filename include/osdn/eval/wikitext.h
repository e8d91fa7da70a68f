#pragma once
// WikiText-2 raw, document by document, as the word perplexities of the
// literature count it (the text operations of lm-evaluation-harness's wikitext
// task).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace osdn::eval {

/// The articles of a raw file: a line `= title =` begins one. White space
/// before the first is dropped.
std::vector<std::string> split_wikitext(std::string_view raw);

/// Pieces between runs of white space, with the empty ones at both ends; the
/// divisor of word perplexity, counted before detokenisation.
std::int64_t count_words(std::string_view document);

/// Undoes the spacing of the tokenised corpus; this is what the model reads.
std::string detokenise_wikitext(std::string_view document);

}  // namespace osdn::eval
