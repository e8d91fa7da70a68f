#pragma once
// UTF-8 as Unicode 15 table 3-7 defines it.

#include <cstddef>
#include <optional>
#include <string_view>

namespace osdn {

/// Offset of the first byte of the first ill-formed sequence (stray
/// continuation, overlong form, surrogate, above U+10FFFF, cut short at the
/// end); nothing when all of `text` is well-formed.
std::optional<std::size_t> first_invalid_utf8(std::string_view text);

/// What a first byte begins: a sequence of `length` bytes, the second of which
/// lies in [low, high] and the others in [0x80, 0xBF].
struct Utf8Lead {
  std::size_t length = 0;  ///< 0: no sequence begins with this byte
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
};
Utf8Lead utf8_lead(unsigned char byte);

}  // namespace osdn
