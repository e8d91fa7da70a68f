#include "osdn/core/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace osdn {
namespace {

TEST(Utf8, well_formed_text) {
  for (const std::string text :
       {"", "plain", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80",
        "\xF4\x8F\xBF\xBF", "\xED\x9F\xBF", "\xEE\x80\x80",
        "a longer line of text that is ASCII only, past eight bytes"}) {
    EXPECT_EQ(first_invalid_utf8(text), std::nullopt) << text;
  }
  EXPECT_EQ(first_invalid_utf8(std::string("a\0b", 3)), std::nullopt);
}

TEST(Utf8, the_first_bad_byte_is_named) {
  const struct {
    std::string bytes;
    std::size_t offset;
  } cases[] = {
      {"ab\x80", 2},                 // stray continuation
      {"ab\xC3", 2},                 // cut short
      {"ab\xE2\x82", 2},             //
      {"ab\xF0\x9F\x98", 2},         //
      {"\xC0\xAF", 0},               // overlong
      {"\xC1\xBF", 0},               //
      {"\xE0\x9F\xBF", 0},           //
      {"\xF0\x8F\xBF\xBF", 0},       //
      {"\xED\xA0\x80", 0},           // surrogate
      {"\xF4\x90\x80\x80", 0},       // above U+10FFFF
      {"\xF5\x80\x80\x80", 0},       //
      {"\xFF", 0},                   //
      {"12345678\xC3\xA9\x81", 10},  // after the fast path
      {"\xC3\xA9 12345678 \xE2(\xAC", 12},
  };
  for (const auto& [bytes, offset] : cases) {
    EXPECT_EQ(first_invalid_utf8(bytes), offset) << bytes;
  }
}

// Two bytes are enough to tell a sequence that goes on from one that cannot.
TEST(Utf8, a_lead_says_what_may_follow) {
  for (int lead = 0; lead < 256; ++lead) {
    const Utf8Lead what = utf8_lead(static_cast<unsigned char>(lead));
    for (int second = 0; second < 256; ++second) {
      std::string bytes = {static_cast<char>(lead), static_cast<char>(second)};
      for (std::size_t i = 2; i < what.length; ++i) bytes += '\x80';
      const bool fits =
          what.length > 1 && second >= what.low && second <= what.high;
      const bool whole =
          what.length > 1 ? fits : what.length == 1 && second < 0x80;
      EXPECT_EQ(first_invalid_utf8(bytes) == std::nullopt, whole)
          << lead << " " << second;
    }
  }
}

// A bad byte at every place around the eight-byte steps.
TEST(Utf8, no_offset_hides_a_bad_byte) {
  for (std::size_t size = 1; size < 40; ++size) {
    for (std::size_t bad = 0; bad < size; ++bad) {
      std::string text(size, 'a');
      text[bad] = '\xFE';
      EXPECT_EQ(first_invalid_utf8(text), bad);
    }
  }
}

}  // namespace
}  // namespace osdn
