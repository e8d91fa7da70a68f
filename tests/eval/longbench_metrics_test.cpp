// The expected numbers come from Python: difflib, re, and the definitions of
// rouge 1.0.1 and of LongBench written out there.
#include "osdn/eval/longbench_metrics.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/message_of.h"

namespace osdn::eval {
namespace {

using Strings = std::vector<std::string>;

TEST(QaF1, counts_common_words_without_articles_and_punctuation) {
  EXPECT_DOUBLE_EQ(qa_f1("The cat, a hat!", "cat HAT"), 1);
  // 1 of 2 words found is right, 1 of 3 was found.
  EXPECT_DOUBLE_EQ(qa_f1("red green", "red blue white"), 0.4);
  // A word counts as often as both have it.
  EXPECT_DOUBLE_EQ(qa_f1("x x x", "x x"), 0.8);
  EXPECT_DOUBLE_EQ(qa_f1("", "red"), 0);
  EXPECT_DOUBLE_EQ(qa_f1("the", "the"), 0);
}

TEST(QaF1, deletes_punctuation_without_a_space_and_ends_words_as_python) {
  EXPECT_DOUBLE_EQ(qa_f1("a-hat", "ahat"), 1);
  // An article ends at a dash that is not ASCII, and not at a letter.
  EXPECT_DOUBLE_EQ(qa_f1("the\u2014a x", "\u2014 x"), 1);
  EXPECT_DOUBLE_EQ(qa_f1("an\u00E9", "\u00E9"), 0);
  EXPECT_DOUBLE_EQ(qa_f1("\u00C9T\u00C9\u3000x", "\u00E9t\u00E9 x"), 1);
}

TEST(RougeL, agrees_with_the_package) {
  EXPECT_DOUBLE_EQ(rouge_l("the cat sat on the mat", "the cat lay on a mat"),
                   0.7272727223140496);
  EXPECT_DOUBLE_EQ(rouge_l("b a", "a b"), 0.4999999950000001);
  EXPECT_DOUBLE_EQ(rouge_l("One two. three four. ", "three two one. Four"),
                   0.4444444395061729);
  EXPECT_DOUBLE_EQ(rouge_l("a b c. d e", "e d. c b a. a d"),
                   0.3999999950000001);
  EXPECT_DOUBLE_EQ(rouge_l("police killed the gunman. the gunman died",
                           "police kill the gunman. gunman killed by police"),
                   0.5454545404958678);
}

TEST(RougeL, a_sentence_of_white_space_is_one_empty_word) {
  EXPECT_DOUBLE_EQ(rouge_l(" . x", "x y. "), 0.7999999952000001);
  EXPECT_DOUBLE_EQ(rouge_l("", "x"), 0);
  EXPECT_DOUBLE_EQ(rouge_l("...", "x"), 0);
}

TEST(Classification, is_shared_among_the_classes_that_the_output_names) {
  const Strings classes = {"Date", "City", "Country", "Other location"};
  EXPECT_DOUBLE_EQ(classification_score("Type: City", "City", classes), 1);
  EXPECT_DOUBLE_EQ(classification_score("City or Date", "City", classes), 0.5);
  EXPECT_DOUBLE_EQ(classification_score("city", "City", classes), 0);
  EXPECT_DOUBLE_EQ(classification_score("Date", "City", classes), 0);
}

TEST(Classification, deletes_parts_of_the_answer_and_skips_the_next) {
  const Strings classes = {"Other", "location", "Other location"};
  // "Other" goes, which lets "location" escape: two are left.
  EXPECT_DOUBLE_EQ(
      classification_score("Other location", "Other location", classes), 0.5);
  const Strings apart = {"Other", "Other location", "location"};
  EXPECT_DOUBLE_EQ(
      classification_score("Other location", "Other location", apart), 1);
}

TEST(Count, is_the_share_of_integers_that_are_right) {
  EXPECT_DOUBLE_EQ(count_score("There are 12 of 30 or 12", "12"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(count_score("twelve", "12"), 0);
  EXPECT_DOUBLE_EQ(count_score("112", "12"), 0);
}

TEST(Retrieval, looks_for_the_number_of_the_paragraph) {
  EXPECT_DOUBLE_EQ(retrieval_score("Paragraph 7", "Paragraph 7"), 1);
  EXPECT_DOUBLE_EQ(retrieval_score("7, not 8", "Paragraph 7"), 0.5);
  EXPECT_DOUBLE_EQ(retrieval_score("none", "Paragraph 7"), 0);
  EXPECT_NE(
      test::message_of([] { retrieval_score("7", "7"); }, ExitCode::kBadInput)
          .find("Paragraph"),
      std::string::npos);
}

TEST(CodeSimilarity, agrees_with_difflib) {
  EXPECT_DOUBLE_EQ(code_similarity("return a + b", "return a - b"), 0.92);
  EXPECT_DOUBLE_EQ(code_similarity("abcd", "bcde"), 0.75);
  EXPECT_DOUBLE_EQ(code_similarity("x = foo(1)", "x = foo(2, 3)"), 0.78);
  EXPECT_DOUBLE_EQ(code_similarity("abab", "baba"), 0.75);
  EXPECT_DOUBLE_EQ(code_similarity("int main", "void run()"), 0.22);
  EXPECT_DOUBLE_EQ(code_similarity("qabxcd", "abycdf"), 0.67);
  EXPECT_DOUBLE_EQ(
      code_similarity("private String name;", "private final String names;"),
      0.85);
  // Lengths are code points.
  EXPECT_DOUBLE_EQ(code_similarity("\u00E9t\u00E9", "ete"), 0.33);
}

TEST(CodeSimilarity, frequent_characters_of_a_long_answer_begin_no_match) {
  std::string answer;
  for (int i = 0; i < 10; ++i) answer += "the lazy dog jumps over ";
  // If they did, 0.08.
  EXPECT_DOUBLE_EQ(code_similarity("the quick brown fox", answer), 0.03);
  std::string pairs;
  for (int i = 0; i < 99; ++i) pairs += "ab";
  EXPECT_DOUBLE_EQ(code_similarity("ab", pairs), 0.02);
}

TEST(CodeSimilarity, takes_the_first_line_without_fence_or_comment) {
  EXPECT_DOUBLE_EQ(
      code_similarity("\n\n```c\n// x\n# y\nint a;\nint b;", "int a;"), 1);
  EXPECT_DOUBLE_EQ(code_similarity("// only", "int a;"), 0);
  EXPECT_DOUBLE_EQ(code_similarity("", "int a;"), 0);
  EXPECT_DOUBLE_EQ(code_similarity("int a;", ""), 0);
}

}  // namespace
}  // namespace osdn::eval
