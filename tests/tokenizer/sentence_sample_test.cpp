#include "osdn/tokenizer/sentence_sample.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "osdn/core/error.h"
#include "osdn/core/utf8.h"

namespace osdn::tokenizer {
namespace {

using ::testing::ElementsAre;

TEST(SplitSentences, lines_and_long_lines) {
  EXPECT_THAT(split_sentences("one\r\n\ntwo", 100), ElementsAre("one", "two"));
  EXPECT_THAT(split_sentences("aa bb cc dd", 6),
              ElementsAre("aa bb ", "cc dd"));
  EXPECT_THAT(split_sentences("aaaaaaaaa", 4),
              ElementsAre("aaaa", "aaaa", "a"));
  EXPECT_THAT(split_sentences("", 4), ElementsAre());
  EXPECT_THAT(split_sentences("\n\n", 4), ElementsAre());
}

TEST(SplitSentences, no_byte_is_lost_and_no_code_point_is_cut) {
  std::string line;
  for (int i = 0; i < 300; ++i) {
    line += i % 7 == 0 ? "ü" : i % 5 == 0 ? "東" : i % 11 == 0 ? " " : "🙂";
  }
  for (std::size_t limit = 4; limit < 40; ++limit) {
    std::string joined;
    for (const std::string_view piece : split_sentences(line, limit)) {
      EXPECT_LE(piece.size(), limit);
      EXPECT_EQ(first_invalid_utf8(piece), std::nullopt);
      joined += piece;
    }
    EXPECT_EQ(joined, line);
  }
}

TEST(SentenceSample, keeps_all_up_to_the_limit_in_order) {
  SentenceSample sample({.max_sentences = 3});
  sample.add_text("a\nb");
  sample.add_text("c");
  EXPECT_EQ(sample.seen(), 3);
  EXPECT_THAT(sample.take(), ElementsAre("a", "b", "c"));
}

TEST(SentenceSample, is_uniform_over_the_whole_stream) {
  constexpr int kSentences = 200;
  constexpr int kKept = 20;
  constexpr int kSeeds = 2000;
  std::vector<int> taken(kSentences, 0);
  for (int seed = 0; seed < kSeeds; ++seed) {
    SentenceSample sample(
        {.max_sentences = kKept, .seed = static_cast<std::uint64_t>(seed)});
    for (int i = 0; i < kSentences; ++i) {
      sample.add_text(std::to_string(i));
    }
    int last = -1;
    for (const std::string& sentence : sample.take()) {
      const int i = std::stoi(sentence);
      EXPECT_GT(i, last);
      last = i;
      ++taken[static_cast<std::size_t>(i)];
    }
  }
  // Each count is binomial with mean 200 and deviation 13.4.
  for (const int count : taken) {
    EXPECT_NEAR(count, kSeeds * kKept / kSentences, 6 * 13.4);
  }
}

TEST(SentenceSample, impossible_options_are_refused) {
  EXPECT_THROW(SentenceSample({.max_sentences = -1}), Error);
  EXPECT_THROW(SentenceSample({.max_sentence_bytes = 3}), Error);
}

}  // namespace
}  // namespace osdn::tokenizer
