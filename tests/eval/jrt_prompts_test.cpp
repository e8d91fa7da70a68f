#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osdn/eval/jrt.h"
#include "support/message_of.h"

namespace osdn::eval {
namespace {

using testing::HasSubstr;

JrtDocument attribute(const std::string& text, const std::string& key) {
  JrtDocument d;
  d.place = "fda.jsonl:3";
  d.text = text;
  d.key = key;
  d.value = "x";
  return d;
}

JrtDocument question(const std::string& context, const std::string& begin,
                     const std::string& asked = "") {
  JrtDocument d;
  d.place = "nq.jsonl:4";
  d.context = context;
  d.question = begin;
  d.orig_question = asked;
  return d;
}

TEST(JrtPrompt, fda) {
  const JrtDocument d = attribute("..Alpha: 1\nBeta: 2.\n", "beta");
  EXPECT_EQ(jrt_prompt(JrtSet::kFda, false, d), "Alpha: 1\nBeta: 2. Beta:");
  EXPECT_EQ(jrt_prompt(JrtSet::kFda, true, d),
            "Information about Beta. Alpha: 1\nBeta: 2.\nAlpha: 1\nBeta: 2. "
            "Beta:");
}

TEST(JrtPrompt, fda_loses_every_trailing_query_in_any_case) {
  const JrtDocument d =
      attribute("Beta: 2 \u00C9t\u00E9:\u00C9T\u00C9:", "\u00E9t\u00E9");
  EXPECT_EQ(jrt_prompt(JrtSet::kFda, false, d), "Beta: 2 . \u00C9t\u00E9:");
}

TEST(JrtPrompt, swde) {
  const JrtDocument d = attribute("Color: red .", "color");
  EXPECT_EQ(jrt_prompt(JrtSet::kSwde, false, d), "Color: red . Color:");
  EXPECT_EQ(jrt_prompt(JrtSet::kSwde, true, d),
            "Information about Color. Color: red.\nColor: red. Color:");
}

TEST(JrtPrompt, a_key_keeps_its_colons_but_in_the_introduction) {
  const JrtDocument d = attribute("a: 1", ":beta:");
  EXPECT_EQ(jrt_prompt(JrtSet::kFda, true, d),
            "Information about beta. a: 1.\na: 1. :beta::");
}

TEST(JrtPrompt, squad_shows_the_context_up_to_the_question) {
  JrtDocument d = question("Some facts.\nQuestion: Who?\nAnswer:", "Who?");
  d.text = " Some facts.\nQuestion: Who?\nAnswer: ";
  EXPECT_EQ(jrt_prompt(JrtSet::kSquad, false, d),
            "Some facts.\nQuestion: Who?\nAnswer:");
  EXPECT_EQ(jrt_prompt(JrtSet::kSquad, true, d),
            "Who? Some facts.\n\nSome facts.\nQuestion: Who?\nAnswer:");
}

TEST(JrtPrompt, nq) {
  const JrtDocument d =
      question(" Foo. The capital is ", "The capital is ", ":What is it:");
  EXPECT_EQ(jrt_prompt(JrtSet::kNq, false, d), "Foo. The capital is");
  EXPECT_EQ(jrt_prompt(JrtSet::kNq, true, d),
            "What is it Foo.\nFoo. The capital is");
  // Read once, case counts and one copy goes.
  EXPECT_EQ(jrt_prompt(JrtSet::kNq, false, question("Foo. it is", "It is")),
            "Foo. it is. It is");
}

TEST(JrtPrompt, triviaqa_loses_its_markers) {
  const JrtDocument d = question("[DOC] Foo [PAR] Bar. The capital is",
                                 "The capital is", "Which?");
  EXPECT_EQ(jrt_prompt(JrtSet::kTriviaqa, false, d),
            "Foo  Bar. The capital is");
  EXPECT_EQ(jrt_prompt(JrtSet::kTriviaqa, true, d),
            "Which? Foo  Bar.\nFoo  Bar. The capital is");
}

TEST(JrtPrompt, drop_keeps_them_and_ignores_case) {
  const JrtDocument d =
      question("[DOC] Foo. the capital is", "The capital is", "Which?");
  EXPECT_EQ(jrt_prompt(JrtSet::kDrop, false, d), "[DOC] Foo. The capital is");
  EXPECT_EQ(jrt_prompt(JrtSet::kDrop, true, d),
            "Which? [DOC] Foo.\n[DOC] Foo. The capital is");
}

TEST(JrtPrompt, refuses_an_empty_query) {
  for (const JrtSet set : {JrtSet::kFda, JrtSet::kSwde}) {
    EXPECT_THAT(
        test::message_of([&] { jrt_prompt(set, false, attribute("a", "")); },
                         ExitCode::kBadInput),
        HasSubstr("fda.jsonl:3: \"key\" is empty"));
  }
  for (const JrtSet set : {JrtSet::kNq, JrtSet::kTriviaqa, JrtSet::kDrop}) {
    EXPECT_THAT(
        test::message_of([&] { jrt_prompt(set, false, question("a", " ")); },
                         ExitCode::kBadInput),
        HasSubstr("nq.jsonl:4: \"question\" is empty"));
  }
}

TEST(OsdnAuthorsPrompt, keeps_a_trailing_query_and_doubles_fda_alone) {
  const JrtDocument d = attribute("..a: 1 color:\n", "color");
  EXPECT_EQ(osdn_authors_prompt(JrtSet::kFda, false, d), "a: 1 color:. Color:");
  EXPECT_EQ(osdn_authors_prompt(JrtSet::kFda, true, d),
            "Information about Color. a: 1 color:.\na: 1 color:. Color:");
  EXPECT_EQ(osdn_authors_prompt(JrtSet::kSwde, true, d), "a: 1 color:. Color:");
  EXPECT_EQ(osdn_authors_prompt(JrtSet::kSquad, true, d), d.text);
}

TEST(ContainsLabel, ignores_case_and_word_borders) {
  EXPECT_TRUE(contains_label("it is PARISIAN", {"x", "paris"}));
  EXPECT_TRUE(contains_label("STRA\u1E9EE", {"stra\u00DFe"}));
  EXPECT_TRUE(contains_label("\u00C5RHUS", {"\u00E5rhus"}));
  EXPECT_FALSE(contains_label("par is", {"paris"}));
  EXPECT_FALSE(contains_label("a.b", {"a?b", "axb"}));
  EXPECT_FALSE(contains_label("paris", {}));
}

}  // namespace
}  // namespace osdn::eval
