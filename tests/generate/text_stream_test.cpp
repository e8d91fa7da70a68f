// Characters and stop strings across the borders of pieces.

#include "osdn/generate/text_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osdn/core/error.h"
#include "osdn/core/random.h"
#include "osdn/core/utf8.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace osdn::generate {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr const char* kBad = "\xEF\xBF\xBD";

/// The whole output for `bytes` cut at random places.
template <typename Stream>
std::string in_pieces(Stream stream, const std::string& bytes,
                      Xoshiro256& random) {
  std::string out;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t n = 1 + random.below(4);
    const std::string piece = stream.push(bytes.substr(at, n));
    out += piece;
    at += n;
  }
  return out + stream.finish();
}

TEST(Utf8Stream, no_piece_breaks_a_character) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80z";
  Utf8Stream stream;
  std::vector<std::string> pieces;
  for (const char byte : text) {
    const std::string piece = stream.push({&byte, 1});
    EXPECT_EQ(first_invalid_utf8(piece), std::nullopt);
    if (!piece.empty()) pieces.push_back(piece);
  }
  EXPECT_THAT(pieces, testing::ElementsAre("a", "\xC3\xA9", "\xE2\x82\xAC",
                                           "\xF0\x9F\x98\x80", "z"));
  EXPECT_EQ(stream.finish(), "");
}

TEST(Utf8Stream, what_is_no_character_is_replaced) {
  const struct {
    std::string bytes;
    std::string text;
  } cases[] = {
      {"a\x80z", std::string("a") + kBad + "z"},          // stray
      {"\xE2\x82", kBad},                                 // cut short
      {"\xE2\x82z", std::string(kBad) + "z"},             // one for both bytes
      {"\xC3\xC3\xA9", std::string(kBad) + "\xC3\xA9"},   // begun again
      {"\xE0\x80", std::string(kBad) + kBad},             // overlong
      {"\xED\xA0\x80", std::string(kBad) + kBad + kBad},  // surrogate
      {"\xF4\x90", std::string(kBad) + kBad},             // past U+10FFFF
      {"\xFF", kBad},
  };
  for (const auto& [bytes, text] : cases) {
    Utf8Stream stream;
    std::string out = stream.push(bytes);
    out += stream.finish();
    EXPECT_EQ(out, text);
  }
}

TEST(Utf8Stream, cuts_change_nothing_and_all_output_is_well_formed) {
  Xoshiro256 random(4);
  constexpr std::string_view kBytes = "a\x80\xBF\xC3\xA9\xE2\x82\xAC\xF0\x9F";
  for (int trial = 0; trial < 300; ++trial) {
    std::string bytes;
    for (int i = 0; i < 30; ++i) bytes += kBytes[random.below(kBytes.size())];
    Utf8Stream whole;
    std::string expected = whole.push(bytes);
    expected += whole.finish();
    EXPECT_EQ(first_invalid_utf8(expected), std::nullopt);
    EXPECT_EQ(in_pieces(Utf8Stream(), bytes, random), expected);
  }
}

TEST(StopStrings, text_ends_before_the_first_that_is_complete) {
  StopStrings stops({"END", "\n\n"});
  EXPECT_EQ(stops.push("one E"), "one ");
  EXPECT_EQ(stops.push("N"), "");
  EXPECT_EQ(stops.pending(), "EN");
  EXPECT_EQ(stops.push("X\n"), "ENX");
  EXPECT_FALSE(stops.stopped());
  EXPECT_EQ(stops.push("\nmore"), "");
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(stops.push("more"), "");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopStrings, what_is_held_back_comes_out_at_the_end) {
  StopStrings stops({"aab"});
  EXPECT_EQ(stops.push("xaaa"), "xa");
  EXPECT_EQ(stops.finish(), "aa");
}

TEST(StopStrings, of_several_at_one_place_the_longest_counts) {
  StopStrings stops({"c", "bc", "xyz"});
  EXPECT_EQ(stops.push("abc"), "a");
  EXPECT_TRUE(stops.stopped());
}

TEST(StopStrings, others_take_over_what_was_held_back) {
  StopStrings other({"q"}, "EN");
  EXPECT_EQ(other.pending(), "");
  EXPECT_EQ(other.push("D"), "END");
  StopStrings none({}, "EN");
  EXPECT_EQ(none.finish(), "EN");
}

TEST(StopStrings, an_empty_one_is_refused) {
  EXPECT_THROW(StopStrings({"a", ""}), Error);
}

// Against a search in the whole text, over an alphabet that makes overlaps.
TEST(StopStrings, cuts_change_nothing) {
  Xoshiro256 random(6);
  const auto word = [&](std::size_t longest) {
    std::string text;
    const std::size_t n = 1 + random.below(longest);
    for (std::size_t i = 0; i < n; ++i) {
      text += static_cast<char>('a' + random.below(2));
    }
    return text;
  };
  int stopped = 0;
  for (int trial = 0; trial < 500; ++trial) {
    const std::vector<std::string> stops = {word(7), word(9)};
    const std::string text = word(40);
    std::size_t end = std::string::npos, begin = text.size();
    for (const std::string& stop : stops) {
      const std::size_t at = text.find(stop);
      if (at == std::string::npos) continue;
      const std::size_t its_end = at + stop.size();
      if (its_end < end || (its_end == end && at < begin)) {
        end = its_end;
        begin = at;
      }
    }
    stopped += end != std::string::npos ? 1 : 0;
    EXPECT_EQ(in_pieces(StopStrings(stops), text, random),
              text.substr(0, begin))
        << text << " " << stops[0] << " " << stops[1];
  }
  EXPECT_GT(stopped, 50);
  EXPECT_LT(stopped, 450);
}

class TextStreamTest : public testing::Test {
 protected:
  TextStreamTest() {
    test::write_tokenizer(dir_ / "t.model");
    tokenizer_.emplace(dir_ / "t.model");
  }
  /// What comes of these ids, each behind the other.
  std::string all(TextStream stream, const Ids& ids) const {
    std::string out;
    for (const std::int32_t id : ids) {
      const std::string piece = stream.push(id);
      EXPECT_EQ(first_invalid_utf8(piece), std::nullopt);
      out += piece;
    }
    return out + stream.finish();
  }

  test::TempDir dir_;
  std::optional<tokenizer::Tokenizer> tokenizer_;
};

// Letters that the tokenizer has no piece for come as single bytes.
TEST_F(TextStreamTest, equals_the_tokenizers_own_decoding) {
  for (const std::string text :
       {"abc abd. cab", "Größe 東京 🙂 abc", " two  spaces", "q\nw\te"}) {
    const Ids ids = tokenizer_->encode(text);
    // The tokenizer drops the space that it put in front of the text.
    EXPECT_EQ(all(TextStream(*tokenizer_, {}), ids), " " + text);
    EXPECT_EQ(tokenizer_->decode(ids), text);
  }
  EXPECT_EQ(all(TextStream(*tokenizer_, {}), {1, 2}), "");
  EXPECT_EQ(all(TextStream(*tokenizer_, {}), {0}), " \xE2\x81\x87 ");
}

TEST_F(TextStreamTest, a_stop_string_is_found_across_tokens_and_bytes) {
  const Ids ids = tokenizer_->encode("abc 東京 abd");
  for (const auto& [stop, text] :
       std::vector<std::pair<std::string, std::string>>{
           {"京", " abc 東"},
           {"東京 a", " abc "},
           {"c 東", " ab"},
           {"no such", " abc 東京 abd"}}) {
    EXPECT_EQ(all(TextStream(*tokenizer_, {stop}), ids), text);
  }
}

// At every place, within a character too.
TEST_F(TextStreamTest, goes_on_where_another_one_stood) {
  const Ids ids = tokenizer_->encode("ab 東京 abd 🙂 cab");
  const std::vector<std::string> stops = {"京 ab", "🙂 cc", "d 🙂 c"};
  TextStream whole(*tokenizer_, stops);
  const std::string expected = all(whole, ids);
  EXPECT_EQ(expected, " ab 東");
  const std::vector<std::string> late = {"d 🙂 ca"};
  for (std::size_t cut = 0; cut <= ids.size(); ++cut) {
    for (const auto& s : {stops, late}) {
      TextStream first(*tokenizer_, s);
      std::string out;
      for (std::size_t i = 0; i < cut; ++i) out += first.push(ids[i]);
      if (first.stopped()) continue;
      TextStream second(*tokenizer_, s, first.pending());
      for (std::size_t i = cut; i < ids.size(); ++i) out += second.push(ids[i]);
      out += second.finish();
      EXPECT_EQ(out, all(TextStream(*tokenizer_, s), ids)) << cut;
    }
  }
}

TEST(TextStream, stops_may_begin_after_some_tokens) {
  const test::TempDir dir;
  test::write_tokenizer(dir / "t.model");
  const tokenizer::Tokenizer tokenizer(dir / "t.model");
  const Ids ids = tokenizer.encode("ab\nab\nab");
  const auto until_stop = [&](std::int64_t before) {
    TextStream stream(tokenizer, {"\n"}, {}, before);
    std::string text;
    for (const std::int32_t id : ids) {
      if (!stream.stopped()) text += stream.push(id);
    }
    return text + stream.finish();
  };
  const std::string all = until_stop(100);
  EXPECT_TRUE(all.ends_with("ab\nab\nab")) << all;
  std::size_t free = 0;
  for (std::size_t n = 0; n < ids.size(); ++n) {
    EXPECT_EQ(until_stop(static_cast<std::int64_t>(n)),
              all.substr(0, all.find('\n', free)));
    free += tokenizer.bytes_of(ids[n]).size();
  }
}

}  // namespace
}  // namespace osdn::generate
