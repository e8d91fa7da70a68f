#include "osdn/eval/python_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace osdn::eval {
namespace {

using testing::ElementsAre;

TEST(PythonText, white_space_is_that_of_unicode) {
  // Every code point for which Python 3's str.isspace() is true.
  int count = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    count += is_white_space(c) ? 1 : 0;
  }
  EXPECT_EQ(count, 29);
  for (const char32_t c :
       {0x09, 0x0D, 0x1C, 0x1F, 0x20, 0x85, 0xA0, 0x1680, 0x2000, 0x200A,
        0x2028, 0x2029, 0x202F, 0x205F, 0x3000}) {
    EXPECT_TRUE(is_white_space(c)) << static_cast<unsigned>(c);
  }
  // Zero-width space, word joiner and byte order mark are not.
  for (const char32_t c : {0x08, 0x0E, 0x1B, 0x21, 0x200B, 0x2060, 0xFEFF}) {
    EXPECT_FALSE(is_white_space(c)) << static_cast<unsigned>(c);
  }
}

TEST(PythonText, strip) {
  EXPECT_EQ(strip(" \t\u00A0a b\u3000\n"), "a b");
  EXPECT_EQ(strip_left("\u2003a\u2003"), "a\u2003");
  EXPECT_EQ(strip_right("\u2003a\u2003"), "\u2003a");
  EXPECT_EQ(strip(" \u3000 "), "");
  EXPECT_EQ(strip(""), "");
  EXPECT_EQ(strip("\u00E9"), "\u00E9");
}

TEST(PythonText, strip_takes_a_set_of_code_points) {
  EXPECT_EQ(strip("..a.b,", ".,"), "a.b");
  // "\u00A8" and "\u00E8" share their last byte.
  EXPECT_EQ(strip("\u00E8a\u00E8", "\u00A8"), "\u00E8a\u00E8");
  EXPECT_EQ(strip("\u00A8a\u00A8", "\u00A8"), "a");
  EXPECT_EQ(strip("aaa", "a"), "");
  EXPECT_EQ(strip(" a ", ""), " a ");
}

TEST(PythonText, split_with_and_without_the_empty_ends) {
  EXPECT_THAT(split_at_white_space(" a \u00A0 b\n"),
              ElementsAre("", "a", "b", ""));
  EXPECT_THAT(split_words(" a \u00A0 b\n"), ElementsAre("a", "b"));
  EXPECT_THAT(split_at_white_space(""), ElementsAre(""));
  EXPECT_THAT(split_words(""), ElementsAre());
  EXPECT_THAT(split_at_white_space(" "), ElementsAre("", ""));
  EXPECT_THAT(split_at_white_space("a"), ElementsAre("a"));
}

TEST(PythonText, split_and_replace_at_a_text) {
  EXPECT_THAT(split_at("a\n\nb\n", "\n"), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(split_at("", "\n"), ElementsAre(""));
  // From the left, not overlapping.
  EXPECT_EQ(replace_all("= = = =", "= =", "=="), "== ==");
  EXPECT_EQ(replace_all("aaa", "aa", "b"), "ba");
  EXPECT_EQ(replace_all("abc", "x", "y"), "abc");
  EXPECT_EQ(replace_all("abab", "ab", ""), "");
}

TEST(PythonText, lengths_and_slices_count_code_points) {
  const std::string text = "a\u00E9\u20AC\U0001F600z";
  EXPECT_EQ(code_point_length(text), 5U);
  EXPECT_EQ(slice(text, 1, 4), "\u00E9\u20AC\U0001F600");
  EXPECT_EQ(slice(text, 3, 100), "\U0001F600z");
  EXPECT_EQ(slice(text, 5, 9), "");
  EXPECT_EQ(slice(text, 4, 2), "");
  EXPECT_EQ(slice(text, 0, 0), "");
}

TEST(PythonText, lower_case_beyond_ascii) {
  EXPECT_EQ(lower("Hello, WORLD 123"), "hello, world 123");
  EXPECT_EQ(lower("\u00C4\u00D6\u00DC\u00D7\u00DF"),
            "\u00E4\u00F6\u00FC\u00D7\u00DF");
  EXPECT_EQ(lower("\u0100\u0101\u0178\u017D"), "\u0101\u0101\u00FF\u017E");
  EXPECT_EQ(lower("\u0391\u03A9\u0416"), "\u03B1\u03C9\u0436");
  EXPECT_EQ(lower("\u1E9E\u212A\u2126"), "\u00DFk\u03C9");
  EXPECT_EQ(lower("\u0130"), "i\u0307");
  EXPECT_EQ(lower("\U00010400\U0001E921"), "\U00010428\U0001E943");
}

TEST(PythonText, bytes_that_are_no_utf8_are_kept) {
  const std::string text = "\xFF \xC3";
  EXPECT_EQ(lower(text), text);
  EXPECT_EQ(code_point_length(text), 3U);
  EXPECT_EQ(strip(text), text);
  EXPECT_THAT(split_words(text), ElementsAre("\xFF", "\xC3"));
  // A continuation byte that looks like a no-break space's second half.
  EXPECT_EQ(strip("a\xA0"), "a\xA0");
}

}  // namespace
}  // namespace osdn::eval
