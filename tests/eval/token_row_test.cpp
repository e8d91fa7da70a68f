// Requests as tokens: the rules of eval.md 1 and the pitfalls of eval.md 10.

#include "osdn/eval/token_row.h"

#include <gtest/gtest.h>

#include "support/shared_data.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace osdn::eval {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::int32_t kPrefix = 77;

/// The published 32k tokenizer.
class TokenRows : public testing::Test {
 protected:
  void SetUp() override {
    OSDN_NEEDS_SHARED("data/tokenizers/mistral-v0.1-32k.model");
    tokenizer_ = std::make_unique<tokenizer::Tokenizer>(
        osdn::test::shared_path("data/tokenizers/mistral-v0.1-32k.model"));
  }
  TokenRow row(const std::string& context, const std::string& continuation,
               std::optional<std::int64_t> max_len = std::nullopt,
               bool bos = false) const {
    return token_row(*tokenizer_, {context, continuation}, bos, kPrefix,
                     max_len);
  }
  Ids encode(const std::string& text) const { return tokenizer_->encode(text); }
  /// The tokens that are scored.
  static Ids scored(const TokenRow& row) {
    return {row.tokens.begin() + row.first_scored + 1, row.tokens.end()};
  }

  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
};

// Encoded on its own, SentencePiece gives the continuation another first piece.
TEST_F(TokenRows, continuation_is_encoded_together_with_its_context) {
  const TokenRow got = row("The cat sat on the", " mat");
  EXPECT_EQ(got.tokens, encode("The cat sat on the mat"));
  EXPECT_EQ(got.tokens.size(), encode("The cat sat on the").size() + 1);
  EXPECT_EQ(scored(got), (Ids{got.tokens.back()}));
  EXPECT_NE(encode(" mat"), scored(got));
  EXPECT_FALSE(got.truncated);
  EXPECT_FALSE(got.empty_continuation);
}

// Off by one between logits and labels: the last input token is the last but
// one of all, and predicts the last.
TEST_F(TokenRows, the_last_token_is_scored_and_not_read) {
  const TokenRow got = row("Hello world,", " it's 2024.");
  EXPECT_EQ(got.input_length() + 1, std::ssize(got.tokens));
  EXPECT_EQ(got.first_scored, std::ssize(encode("Hello world,")) - 1);
}

TEST_F(TokenRows, white_space_at_the_contexts_end_counts_to_the_continuation) {
  EXPECT_EQ(row("The cat ", "sat"), row("The cat", " sat"));
  EXPECT_EQ(row("The cat \n\u3000", "sat"), row("The cat", " \n\u3000sat"));
  EXPECT_EQ(scored(row("A:  ", "b")).size(),
            encode("A:  b").size() - encode("A:").size());
}

// "a" + "b" is one piece "ab": the cut by length leaves nothing to score.
TEST_F(TokenRows, a_token_that_spans_the_join_is_counted) {
  ASSERT_EQ(encode("token").size(), 1U);
  ASSERT_EQ(encode("to").size(), 1U);
  const TokenRow got = row("to", "ken");
  EXPECT_TRUE(got.empty_continuation);
  Ids expected = encode("to");
  const Ids apart = encode("ken");
  expected.insert(expected.end(), apart.begin(), apart.end());
  EXPECT_EQ(got.tokens, expected);
  EXPECT_EQ(scored(got), apart);
}

TEST_F(TokenRows, an_empty_continuation_scores_nothing) {
  const TokenRow got = row("The cat", "");
  EXPECT_EQ(got.input_length(), 0);
  EXPECT_FALSE(got.empty_continuation);
}

TEST_F(TokenRows, an_empty_context_is_the_prefix_token) {
  for (const char* context : {"", " "}) {
    const TokenRow got = row(context, "Hello");
    EXPECT_EQ(got.tokens.front(), kPrefix);
    EXPECT_EQ(scored(got), encode(context + std::string("Hello")));
    EXPECT_EQ(got.first_scored, 0);
  }
}

TEST_F(TokenRows, a_begin_token_stands_in_front_once) {
  const std::int32_t bos = tokenizer_->bos_id().value();
  const TokenRow without = row("Hello", " world");
  TokenRow with = row("Hello", " world", std::nullopt, true);
  EXPECT_EQ(with.tokens.front(), bos);
  EXPECT_EQ(with.first_scored, without.first_scored + 1);
  with.tokens.erase(with.tokens.begin());
  EXPECT_EQ(with.tokens, without.tokens);
  // The prefix of an empty context is one already.
  const TokenRow empty = token_row(*tokenizer_, {"", "Hello"}, true, bos, {});
  EXPECT_EQ(empty.tokens[0], bos);
  EXPECT_NE(empty.tokens[1], bos);
}

TEST_F(TokenRows, too_long_a_row_loses_its_first_tokens) {
  const TokenRow whole = row("one two three four five six", " seven eight");
  const std::int64_t length = whole.input_length();
  EXPECT_FALSE(
      row("one two three four five six", " seven eight", length).truncated);
  const TokenRow cut = row("one two three four five six", " seven eight", 4);
  EXPECT_TRUE(cut.truncated);
  EXPECT_EQ(cut.tokens, Ids(whole.tokens.end() - 5, whole.tokens.end()));
  EXPECT_EQ(scored(cut), scored(whole));
}

TEST_F(TokenRows, a_continuation_longer_than_the_limit_is_scored_in_part) {
  const TokenRow cut = row("one", " two three four five six seven", 3);
  EXPECT_TRUE(cut.truncated);
  EXPECT_EQ(cut.input_length(), 3);
  EXPECT_EQ(cut.first_scored, 0);
  EXPECT_EQ(scored(cut).size(), 3U);
}

// The last word with the space before it; a line end stays in it.
TEST_F(TokenRows, lambada_targets_keep_their_space_in_the_word) {
  const TokenRow got = row("nothing but a", " sign\n\"Yes");
  EXPECT_EQ(got.tokens, encode("nothing but a sign\n\"Yes"));
  EXPECT_GT(scored(got).size(), 1U);
}

}  // namespace
}  // namespace osdn::eval
