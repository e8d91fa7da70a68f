#pragma once
// The names, values and sentences of one document of records, drawn so that
// finding one in an output is no accident.

#include <cstdint>
#include <string>
#include <vector>

#include "osdn/core/random.h"
#include "osdn/synth/words.h"

namespace osdn::synth {

/// What a name's values look like.
enum class ValueKind { kPair, kInteger, kDate, kCode, kPhrase };

/// Ignoring case (of ASCII letters): no name or value occurs in any other
/// piece, so that each stands in the text where it was put and nowhere else.
class RecordPieces {
 public:
  RecordPieces(const WordLists& words, Xoshiro256 random)
      : words_(words), random_(random) {}

  Xoshiro256& random() { return random_; }

  /// Each throws Error (kUsage) when the words give no more.
  std::string title();                ///< "Quiet Harbor"
  std::string name();                 ///< one or two words
  std::string value(ValueKind kind);  ///< at least two characters
  std::string filler();               ///< a sentence of 8 to 20 words
  ValueKind kind();

 private:
  template <typename Draw>
  std::string accepted(bool guard, const Draw& draw);
  const std::string& noun();
  const std::string& adjective();
  std::string any_value(ValueKind kind);

  const WordLists& words_;
  Xoshiro256 random_;
  std::string all_;                   // every piece, lower case, a line each
  std::vector<std::string> guarded_;  // names and values, lower case
};

}  // namespace osdn::synth
