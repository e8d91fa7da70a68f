#pragma once
// Token ids that come one by one, given out as text.

#include <cstdint>
#include <string>
#include <vector>

#include "osdn/generate/stop_strings.h"
#include "osdn/generate/utf8_stream.h"
#include "osdn/tokenizer/tokenizer.h"

namespace osdn::generate {

/// Text that is not given out yet.
struct PendingText {
  std::string bytes{};  ///< the beginning of a character
  std::string text{};   ///< maybe the beginning of a stop string
  bool operator==(const PendingText&) const = default;
};

/// Whole characters only, up to the first stop string. The text goes on behind
/// other text: a space in front of the first word stays.
class TextStream {
 public:
  /// The tokenizer must outlive this. In the text of the first
  /// `tokens_before_stop` ids no stop string is looked for.
  TextStream(const tokenizer::Tokenizer& tokenizer,
             std::vector<std::string> stops, const PendingText& pending = {},
             std::int64_t tokens_before_stop = 0);

  /// The text that this id makes certain.
  std::string push(std::int32_t id);
  /// No id follows: what was held back, if it has not stopped.
  std::string finish();
  /// A stop string is complete.
  bool stopped() const { return stops_.stopped(); }
  PendingText pending() const { return {utf8_.pending(), stops_.pending()}; }

 private:
  const tokenizer::Tokenizer* tokenizer_;
  Utf8Stream utf8_;
  StopStrings stops_;
  std::int64_t tokens_before_stop_;
};

}  // namespace osdn::generate
