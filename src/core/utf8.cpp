#include "osdn/core/utf8.h"

#include <cstdint>
#include <cstring>

namespace osdn {

namespace {

// Length of the well-formed sequence at `bytes`, 0 when there is none.
std::size_t sequence_length(const unsigned char* bytes, std::size_t left) {
  const Utf8Lead lead = utf8_lead(bytes[0]);
  if (lead.length <= 1) {
    return lead.length;
  }
  if (lead.length > left || bytes[1] < lead.low || bytes[1] > lead.high) {
    return 0;
  }
  for (std::size_t i = 2; i < lead.length; ++i) {
    if ((bytes[i] & 0xC0) != 0x80) {
      return 0;
    }
  }
  return lead.length;
}

}  // namespace

Utf8Lead utf8_lead(unsigned char byte) {
  // The second byte's range is what excludes overlong forms, surrogates and
  // code points past U+10FFFF.
  if (byte < 0x80) {
    return {1};
  }
  if (byte >= 0xC2 && byte <= 0xDF) {
    return {2};
  }
  if (byte >= 0xE0 && byte <= 0xEF) {
    return {3, static_cast<unsigned char>(byte == 0xE0 ? 0xA0 : 0x80),
            static_cast<unsigned char>(byte == 0xED ? 0x9F : 0xBF)};
  }
  if (byte >= 0xF0 && byte <= 0xF4) {
    return {4, static_cast<unsigned char>(byte == 0xF0 ? 0x90 : 0x80),
            static_cast<unsigned char>(byte == 0xF4 ? 0x8F : 0xBF)};
  }
  return {0};
}

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
