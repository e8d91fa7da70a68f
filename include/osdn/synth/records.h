#pragma once
// Documents of records, "Name: value" a line on several pages: a stand-in for
// the in-context recall sets that any user can make.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "osdn/synth/words.h"
#include "osdn/tokenizer/tokenizer.h"

namespace osdn::synth {

enum class RecordMode {
  kUnique,  ///< every name stands once
  kSame,    ///< the queried pair stands on several pages
  kUpdate,  ///< the queried name, with other values; the last one counts
  kScoped,  ///< pages share their names; the key is "Title - Name"
};

/// "unique", "same", "update", "scoped"; throws Error (kUsage) naming these.
RecordMode record_mode_from_name(std::string_view name);
std::string_view name_of(RecordMode mode);

struct RecordOptions {
  RecordMode mode = RecordMode::kUnique;
  std::int64_t tokens = 900;  ///< a document has at most so many
  /// So many records in a document, whatever its tokens.
  std::optional<std::int64_t> records{};
  std::int64_t repeat = 3;  ///< pages of the queried name in same and update
};

struct RecordDocument {
  std::string text{};
  std::string key{};
  std::string value{};
  double depth = 0;          ///< of the labelled record: 0 first, 1 last
  std::int64_t records = 0;  ///< repetitions included
  std::int64_t pages = 0;
  std::int64_t tokens = 0;  ///< of the text, no begin token; 0: not counted
  /// Values that would be wrong: of other records, in `update` the older ones.
  std::vector<std::string> distractors{};
};

/// Makes the documents of one configuration. Const functions may be called from
/// several threads.
class RecordGenerator {
 public:
  /// `words` must outlive this, and so must `tokenizer`, which may be null
  /// where `records` is given. Throws Error (kUsage) for options out of range.
  RecordGenerator(const RecordOptions& options, const WordLists& words,
                  const tokenizer::Tokenizer* tokenizer, std::uint64_t seed);

  /// Document `index` of the stream "records". The labelled record of document
  /// i lies in tenth i mod 10, uniform within it. Throws Error (kUsage) when
  /// the least document does not fit or the words do not give enough names.
  RecordDocument document(std::uint64_t index) const;

 private:
  const RecordOptions options_;
  const WordLists& words_;
  const tokenizer::Tokenizer* tokenizer_;
  const std::uint64_t seed_;
};

/// The document with its question and answer, as a text to train on.
std::string training_text(const RecordDocument& document);

}  // namespace osdn::synth
