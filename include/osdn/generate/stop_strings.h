#pragma once
// Strings that end a text, in a text that comes in pieces.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace osdn::generate {

/// Gives the text out up to the stop string that is complete first; of several
/// that end at the same byte the longest counts. How the text is cut into
/// pieces changes nothing. What may be the beginning of a stop string is held
/// back until that is known.
class StopStrings {
 public:
  /// `pending`: what another one held back; what these strings do not hold back
  /// of it comes with the next text. Throws Error (kUsage) for an empty string.
  explicit StopStrings(std::vector<std::string> stops,
                       std::string_view pending = {});

  /// The text that can be given out. Empty once it has stopped.
  std::string push(std::string_view text);
  /// No text follows: what was held back, if it has not stopped.
  std::string finish();

  bool stopped() const { return stopped_; }
  const std::string& pending() const { return pending_; }
  const std::vector<std::string>& stops() const { return stops_; }

 private:
  std::size_t longest_beginning() const;

  std::vector<std::string> stops_;
  std::string ready_;
  std::string pending_;
  bool stopped_ = false;
};

}  // namespace osdn::generate
