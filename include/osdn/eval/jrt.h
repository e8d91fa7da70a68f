#pragma once
// In-context recall after Arora et al. 2024 (JRT): a document, cut around its
// answer, and a prompt that begins the sentence that the document completes.
// The protocols differ in the cut and in the words of the prompt; numbers of
// two protocols are not comparable.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osdn/tokenizer/tokenizer.h"

namespace osdn::eval {

enum class JrtSet { kFda, kSwde, kSquad, kNq, kTriviaqa, kDrop };

/// "fda", "swde", ...; nothing for another name.
std::optional<JrtSet> jrt_set_from_name(std::string_view name);

/// Which fields are there depends on the set; the others are empty.
struct JrtDocument {
  std::string place{};  ///< file and line, for messages
  std::string text{};
  std::string key{};
  std::string value{};
  std::string context{};
  std::string question{};       ///< the beginning of a statement
  std::string orig_question{};  ///< the question that it answers
  std::vector<std::string> answers{};
  std::vector<std::string> alt_answers{};
  std::optional<std::int64_t> tok_pos{};
};

/// What the output is searched for: the value, or the answers.
std::vector<std::string> jrt_labels(JrtSet set, const JrtDocument& document);

// ---- cuts ----

/// Tokens of a text as the public tokenizers of Llama and Mistral give them: a
/// begin id in front where the tokenizer has one.
std::vector<std::int32_t> encode_with_bos(const tokenizer::Tokenizer& tokenizer,
                                          std::string_view text);

/// `desired` tokens of T around token p: the window begins half of them before
/// p, or at the start, and is not widened on the left where the text ends.
std::vector<std::int32_t> window_around(const std::vector<std::int32_t>& tokens,
                                        std::int64_t p, std::int64_t desired);

/// Cuts the set's field (text, or context) to at most `desired` tokens around
/// the first place where a cut key (key, value or answer) stands, ignoring
/// case. Without one, the window lies at the text's end. False: a cut key has
/// at most one character, and the document is to be left out.
bool cut_around_answer(JrtSet set, const tokenizer::Tokenizer& tokenizer,
                       std::int64_t desired, JrtDocument& document);

/// The cut of the OSDN authors' script: around the first place of the value, of
/// the text as it is; the text's last `desired` tokens where it does not occur.
/// swde and squad read twice are doubled before the cut. False for a value of
/// at most one character.
bool cut_as_osdn_authors(JrtSet set, bool twice,
                         const tokenizer::Tokenizer& tokenizer,
                         std::int64_t desired, JrtDocument& document);

// ---- prompts, none of which ends in a space ----

/// The text read once, or twice with the query in front. Throws Error
/// (kBadInput) naming the document for an empty key or question.
std::string jrt_prompt(JrtSet set, bool twice, const JrtDocument& document);

/// The OSDN authors' prompts, of fda, swde and squad.
std::string osdn_authors_prompt(JrtSet set, bool twice,
                                const JrtDocument& document);

// ---- score ----

/// A label occurs in the output, ignoring case; no word borders, nothing
/// normalised.
bool contains_label(std::string_view output,
                    const std::vector<std::string>& labels);

}  // namespace osdn::eval
