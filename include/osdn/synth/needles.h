#pragma once
// Needles in a haystack (Hsieh et al. 2024, RULER): sentences that give a key's
// value, hidden in a long text that ends with a question about some keys.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osdn/synth/haystack.h"
#include "osdn/synth/words.h"
#include "osdn/tokenizer/tokenizer.h"

namespace osdn::synth {

enum class Hay { kNoise, kEssay, kNeedles };
enum class NeedleText { kWord, kNumber, kUuid };

/// One of the eight tasks.
struct NeedleTask {
  std::string name{};
  Hay hay = Hay::kNoise;
  NeedleText key = NeedleText::kWord;
  NeedleText value = NeedleText::kNumber;
  std::int64_t keys = 1;
  std::int64_t values = 1;   ///< of each key
  std::int64_t queries = 1;  ///< the first so many keys are asked for
};

const std::vector<NeedleTask>& needle_tasks();

/// "a", "a, and b", "a, b, and c".
std::string enumeration(const std::vector<std::string>& names);

struct NeedleDocument {
  std::string prompt{};
  std::vector<std::string> answers{};  ///< of the queried keys, in order
  std::vector<double> depths{};  ///< of each answer's needle: 0 first, 1 last
  std::vector<std::string> queries{};
  std::int64_t tokens = 0;  ///< of the prompt, no begin token
};

/// Tokens that are left for the answer.
constexpr std::int64_t kNeedleAnswerTokens = 128;

/// A longer prompt is looked for in memory that a machine may not have.
constexpr std::int64_t kMostTargetTokens = std::int64_t{1} << 24;

/// Makes the documents of one task and one length. Const functions may be
/// called from several threads.
class NeedleGenerator {
 public:
  /// Haystacks are as long as prompt and answer fit into `target_tokens`:
  /// their length, in words or lines, is looked for once, with document 0, and
  /// a document that is still too long is shortened by itself. References must
  /// outlive this. Throws Error (kUsage) when not even the smallest prompt of
  /// document 0 fits, and for a target above kMostTargetTokens.
  NeedleGenerator(const NeedleTask& task, const WordLists& words,
                  const Essay& essay, const tokenizer::Tokenizer& tokenizer,
                  std::int64_t target_tokens, std::uint64_t seed);

  /// Document `index` of the stream named like the task. Throws Error (kUsage)
  /// when not even its smallest prompt fits.
  NeedleDocument document(std::uint64_t index) const;

  /// "noise", "needles" or the essay's name.
  std::string haystack() const;
  /// Words or lines of document 0.
  std::int64_t hay_size() const { return size_; }

 private:
  struct Needles;

  Needles draw(std::uint64_t index) const;
  NeedleDocument build(const Needles& needles, std::int64_t size) const;
  std::int64_t smallest() const;
  bool fits(const NeedleDocument& document) const;
  std::int64_t largest_that_fits(const Needles& needles) const;

  const NeedleTask& task_;
  const WordLists& words_;
  const Essay& essay_;
  const tokenizer::Tokenizer& tokenizer_;
  std::int64_t target_tokens_;
  std::uint64_t seed_;
  std::int64_t size_ = 0;
};

}  // namespace osdn::synth
