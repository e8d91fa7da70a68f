#include "osdn/core/utf8.h"

#include <cstdint>
#include <cstring>

namespace osdn {

namespace {

// Length of the well-formed sequence at `bytes`, 0 when there is none.
std::size_t sequence_length(const unsigned char* bytes, std::size_t left) {
  const unsigned char lead = bytes[0];
  std::size_t length = 0;
  // The second byte's range is what excludes overlong forms, surrogates and
  // code points past U+10FFFF.
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead < 0x80) {
    return 1;
  }
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    low = lead == 0xE0 ? 0xA0 : 0x80;
    high = lead == 0xED ? 0x9F : 0xBF;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    low = lead == 0xF0 ? 0x90 : 0x80;
    high = lead == 0xF4 ? 0x8F : 0xBF;
  }
  if (length == 0 || length > left || bytes[1] < low || bytes[1] > high) {
    return 0;
  }
  for (std::size_t i = 2; i < length; ++i) {
    if ((bytes[i] & 0xC0) != 0x80) {
      return 0;
    }
  }
  return length;
}

}  // namespace

std::optional<std::size_t> first_invalid_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  std::size_t at = 0;
  while (at < text.size()) {
    // Eight ASCII bytes at a time: most text is ASCII.
    std::uint64_t word = 0;
    while (at + sizeof(word) <= text.size()) {
      std::memcpy(&word, bytes + at, sizeof(word));
      if ((word & 0x8080808080808080ULL) != 0) {
        break;
      }
      at += sizeof(word);
    }
    if (at == text.size()) {
      break;
    }
    const std::size_t length = sequence_length(bytes + at, text.size() - at);
    if (length == 0) {
      return at;
    }
    at += length;
  }
  return std::nullopt;
}

}  // namespace osdn
