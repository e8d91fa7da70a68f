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

TEST(PythonText, first_letter_becomes_upper_case) {
  EXPECT_EQ(upper_first("key word"), "Key word");
  EXPECT_EQ(upper_first("Key"), "Key");
  EXPECT_EQ(upper_first("\u00E9t\u00E9"), "\u00C9t\u00E9");
  EXPECT_EQ(upper_first("\u0101b"), "\u0100b");
  EXPECT_EQ(upper_first("\u03B8"), "\u0398");
  EXPECT_EQ(upper_first("\u0444"), "\u0424");
  EXPECT_EQ(upper_first("\u00DFa"), "SSa");
  EXPECT_EQ(upper_first("1a"), "1a");
  EXPECT_EQ(upper_first(""), "");
}

TEST(PythonText, search_ignores_case_by_code_points) {
  EXPECT_EQ(find_ignoring_case("abc ABC", "AbC"), 0U);
  EXPECT_EQ(find_ignoring_case("\u00C4\u00C4 \u00DCber", "\u00FCBER"), 5U);
  EXPECT_EQ(find_ignoring_case("STRA\u1E9EE", "stra\u00DFe"), 0U);
  EXPECT_EQ(find_ignoring_case("a ix", "\u0130x"), 2U);
  EXPECT_EQ(find_ignoring_case("\u017F", "s"), 0U);
  EXPECT_EQ(find_ignoring_case("\u212A", "K"), 0U);
  EXPECT_EQ(find_ignoring_case("\u039C", "\u00B5"), 0U);
  EXPECT_EQ(find_ignoring_case("\u03C2", "\u03C3"), 0U);
  EXPECT_EQ(find_ignoring_case("abc", ""), 0U);
  EXPECT_EQ(find_ignoring_case("", "a"), std::nullopt);
  EXPECT_EQ(find_ignoring_case("ab", "abc"), std::nullopt);
  // Half of a character is no match.
  EXPECT_EQ(find_ignoring_case("\u00E9", "\xC3"), std::nullopt);
  EXPECT_EQ(find_ignoring_case("x\xC3", "\xC3"), 1U);
}

TEST(PythonText, ends_of_texts_ignore_case) {
  EXPECT_TRUE(ends_with_ignoring_case("a \u00C9T\u00C9:", "\u00E9t\u00E9:"));
  EXPECT_FALSE(ends_with_ignoring_case("ab", "abc"));
}

TEST(PythonText, code_points_and_word_characters) {
  EXPECT_EQ(code_points("a\u00E9\U0001F600"),
            (std::u32string{U'a', 0xE9, 0x1F600}));
  EXPECT_EQ(code_points("\xC3"), (std::u32string{0x1100C3}));
  for (const char32_t c : {U'a', U'Z', U'0', U'_', char32_t{0xE9},
                           char32_t{0xB2}, char32_t{0x4E2D}, char32_t{0x3B1}}) {
    EXPECT_TRUE(is_word_character(c)) << static_cast<unsigned>(c);
  }
  for (const char32_t c :
       {U' ', U'-', U'.', char32_t{0xA0}, char32_t{0xD7}, char32_t{0x2014},
        char32_t{0x2019}, char32_t{0x3002}, char32_t{0x20AC}}) {
    EXPECT_FALSE(is_word_character(c)) << static_cast<unsigned>(c);
  }
}

}  // namespace
}  // namespace osdn::eval
