#pragma once
// Bytes that come in pieces, given out as whole characters.

#include <string>
#include <string_view>

namespace osdn::generate {

/// Holds back the bytes of a character that is not complete. What cannot
/// become one is replaced by U+FFFD, one for each longest beginning of a
/// sequence (Unicode 15, 3.9, "substitution of maximal subparts").
class Utf8Stream {
 public:
  /// Goes on where another stream with these pending bytes stood.
  explicit Utf8Stream(std::string_view pending = {}) { push(pending); }

  /// The characters that these bytes complete: always well-formed.
  std::string push(std::string_view bytes);
  /// No byte follows: U+FFFD when some are pending.
  std::string finish();
  /// Up to three bytes: the beginning of a character.
  const std::string& pending() const { return pending_; }

 private:
  void push_byte(char byte, std::string& out);

  std::string pending_;
};

}  // namespace osdn::generate
