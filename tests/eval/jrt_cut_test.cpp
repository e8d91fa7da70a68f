#include <gtest/gtest.h>

#include <numeric>

#include "osdn/eval/jrt.h"
#include "support/shared_data.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace osdn::eval {
namespace {

using Ids = std::vector<std::int32_t>;
using tokenizer::Tokenizer;

Ids counting(std::int32_t n) {
  Ids ids(static_cast<std::size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

TEST(WindowAround, begins_half_before_and_is_not_widened) {
  const Ids t = counting(100);
  EXPECT_EQ(window_around(t, 50, 20), Ids(t.begin() + 40, t.begin() + 60));
  EXPECT_EQ(window_around(t, 5, 20), Ids(t.begin(), t.begin() + 20));
  EXPECT_EQ(window_around(t, 95, 20), Ids(t.begin() + 85, t.end()));
  // The head goes although the whole would fit.
  EXPECT_EQ(window_around(counting(15), 12, 20),
            Ids(t.begin() + 2, t.begin() + 15));
  // Half of an odd length is rounded down.
  EXPECT_EQ(window_around(t, 50, 5), Ids(t.begin() + 48, t.begin() + 53));
  EXPECT_EQ(window_around(t, 500, 20), Ids());
}

class JrtCut : public testing::Test {
 protected:
  void SetUp() override {
    OSDN_NEEDS_SHARED("data/tokenizers/mistral-v0.1-32k.model");
    tokenizer_.emplace(
        test::shared_path("data/tokenizers/mistral-v0.1-32k.model"));
  }

  /// Words that are one token each: "a0" would be two.
  static std::string words(int n, const std::string& word = "tree") {
    std::string text;
    for (int i = 0; i < n; ++i) text += (i > 0 ? " " : "") + word;
    return text;
  }

  std::int64_t length(const std::string& text) const {
    return static_cast<std::int64_t>(tokenizer_->encode(text).size());
  }

  std::optional<Tokenizer> tokenizer_;
};

JrtDocument fda(const std::string& text, const std::string& key,
                const std::string& value) {
  JrtDocument d;
  d.text = text;
  d.key = key;
  d.value = value;
  return d;
}

TEST_F(JrtCut, keeps_the_window_around_the_earlier_key) {
  // BOS, 30 words, the key at token 31, 30 words, the value, 30 words.
  JrtDocument d = fda(
      "  " + words(30) + " Color " + words(30) + " red " + words(30) + " \n",
      "color", "red");
  ASSERT_TRUE(cut_around_answer(JrtSet::kFda, *tokenizer_, 10, d));
  // p is 32: BOS, 30 words, and the space behind them, which is a token where a
  // text ends with it. The window is the tokens 27 to 36, the key 31.
  EXPECT_EQ(d.text, words(4) + " Color " + words(5));
}

TEST_F(JrtCut, keeps_a_short_text_whole) {
  JrtDocument d = fda(" Color: red. ", "color", "red");
  ASSERT_TRUE(cut_around_answer(JrtSet::kFda, *tokenizer_, 950, d));
  EXPECT_EQ(d.text, "Color: red.");
}

TEST_F(JrtCut, drops_documents_with_a_key_of_one_character) {
  JrtDocument d = fda("Color: r", "color", "r");
  EXPECT_FALSE(cut_around_answer(JrtSet::kFda, *tokenizer_, 950, d));
  d = fda("Color: \u00E9", "color", "\u00E9");
  EXPECT_FALSE(cut_around_answer(JrtSet::kSwde, *tokenizer_, 950, d));
  d = fda("Color: r", "", "red");
  EXPECT_TRUE(cut_around_answer(JrtSet::kSquad, *tokenizer_, 950, d));
}

TEST_F(JrtCut, leaves_the_summary_of_swde_out) {
  JrtDocument d =
      fda("Color: red .\nSummary of information above...\nx", "color", "red");
  ASSERT_TRUE(cut_around_answer(JrtSet::kSwde, *tokenizer_, 950, d));
  EXPECT_EQ(d.text, "Color: red .");
  EXPECT_EQ(jrt_prompt(JrtSet::kSwde, false, d), "Color: red . Color:");
  EXPECT_EQ(jrt_prompt(JrtSet::kSwde, true, d),
            "Information about Color. Color: red.\nColor: red. Color:");
}

TEST_F(JrtCut, without_the_answer_lies_at_the_end_or_at_tok_pos) {
  JrtDocument d;
  d.context = words(60) + " end";
  d.answers = {"missing"};
  ASSERT_TRUE(cut_around_answer(JrtSet::kNq, *tokenizer_, 10, d));
  EXPECT_TRUE(d.context.ends_with(" end")) << d.context;
  EXPECT_LE(length(d.context), 10);

  d.context = words(30) + " pine " + words(30) + " end";
  d.tok_pos = 31;
  ASSERT_TRUE(cut_around_answer(JrtSet::kNq, *tokenizer_, 10, d));
  EXPECT_EQ(d.context, words(5) + " pine " + words(4));

  // tok_pos counts only where the text is longer than the window.
  d.context = words(3);
  ASSERT_TRUE(cut_around_answer(JrtSet::kNq, *tokenizer_, 10, d));
  EXPECT_EQ(d.context, words(3));
}

TEST_F(JrtCut, takes_the_first_alternative_that_occurs) {
  JrtDocument d;
  d.context = words(30) + " oak " + words(30) + " pine " + words(30);
  d.answers = {"missing"};
  d.alt_answers = {"absent", "pine", "oak"};
  ASSERT_TRUE(cut_around_answer(JrtSet::kNq, *tokenizer_, 10, d));
  EXPECT_EQ(d.context, words(4) + " pine " + words(5));
}

TEST_F(JrtCut, without_keys_keeps_the_beginning) {
  JrtDocument d;
  d.context = "Start " + words(60);
  ASSERT_TRUE(cut_around_answer(JrtSet::kDrop, *tokenizer_, 10, d));
  // p is 1, as BOS counts: the window is tokens 0 to 9, one of them BOS.
  EXPECT_EQ(d.context, "Start " + words(8));
}

TEST_F(JrtCut, windows_follow_code_points_not_bytes) {
  // Lower case in bytes would move or miss what follows; an umlaut is two.
  JrtDocument d = fda(words(30, "\u00C4") + " \u00DCBER " + words(30),
                      "\u00FCber", "\u00FCber");
  ASSERT_TRUE(cut_around_answer(JrtSet::kFda, *tokenizer_, 10, d));
  EXPECT_NE(d.text.find("\u00DCBER"), std::string::npos) << d.text;
  EXPECT_EQ(d.text.find("\uFFFD"), std::string::npos) << d.text;
}

TEST_F(JrtCut, osdn_authors_double_before_they_cut) {
  JrtDocument d = fda(" Color: red ", "color", "red");
  ASSERT_TRUE(cut_as_osdn_authors(JrtSet::kSwde, true, *tokenizer_, 950, d));
  EXPECT_EQ(d.text, " Color: red \n Color: red ");
  d = fda("Color: red", "c", "red");
  ASSERT_TRUE(cut_as_osdn_authors(JrtSet::kFda, true, *tokenizer_, 950, d));
  EXPECT_EQ(d.text, "Color: red");
  d = fda("Color: red", "color", "r");
  EXPECT_FALSE(cut_as_osdn_authors(JrtSet::kFda, true, *tokenizer_, 950, d));
}

TEST_F(JrtCut, osdn_authors_keep_the_end_where_the_value_is_missing) {
  JrtDocument d = fda("Start " + words(60) + " end", "color", "missing");
  ASSERT_TRUE(cut_as_osdn_authors(JrtSet::kSquad, false, *tokenizer_, 10, d));
  EXPECT_EQ(d.text, words(9) + " end");
}

}  // namespace
}  // namespace osdn::eval
