#include "osdn/eval/wikitext.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "osdn/core/file.h"
#include "osdn/eval/request_hash.h"
#include "support/shared_data.h"

namespace osdn::eval {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Wikitext, a_heading_begins_a_document) {
  EXPECT_THAT(split_wikitext(" \n = One = \n \n text \n = = Part = = \n more \n"
                             " = = = Deeper = = = \n = Two = \n end \n"),
              ElementsAre(" = One = \n \n text \n = = Part = = \n more \n"
                          " = = = Deeper = = = ",
                          " = Two = \n end \n"));
}

TEST(Wikitext, text_before_the_first_heading_is_a_document_too) {
  EXPECT_THAT(split_wikitext("intro\n = A = \nx"),
              ElementsAre("intro", " = A = \nx"));
  EXPECT_THAT(split_wikitext(""), IsEmpty());
  EXPECT_THAT(split_wikitext(" \n \n"), IsEmpty());
}

TEST(Wikitext, words_are_counted_with_the_empty_pieces_at_both_ends) {
  EXPECT_EQ(count_words(" = A = \n"), 5);
  EXPECT_EQ(count_words("a b"), 2);
  EXPECT_EQ(count_words(""), 1);
}

TEST(Wikitext, detokenise_each_rule) {
  EXPECT_EQ(detokenise_wikitext("the girls ' school"), "the girls' school");
  EXPECT_EQ(detokenise_wikitext("well @-@ known 1 @,@ 000 3 @.@ 5"),
            "well-known 1,000 3.5");
  EXPECT_EQ(detokenise_wikitext("a : b ; c . d ! e ? f , g"),
            "a: b; c. d! e? f, g");
  EXPECT_EQ(detokenise_wikitext("x ( a b ) y [ c ] z { d }"),
            "x (a b) y [c] z {d}");
  EXPECT_EQ(detokenise_wikitext("he said \" a b \" and ' c '"),
            "he said \"a b\" and 'c'");
  EXPECT_EQ(detokenise_wikitext("= = = = A = = = B = = C"),
            "==== A === B == C");
  EXPECT_EQ(detokenise_wikitext("5 \u00B0 C a \nb\n c N d 's"),
            "5\u00B0C a\nb\nc 1 d's");
}

TEST(Wikitext, detokenise_pairs_the_first_opener_with_the_first_closer) {
  EXPECT_EQ(detokenise_wikitext("( a ( b ) c )"), "(a ( b) c )");
  EXPECT_EQ(detokenise_wikitext("( open"), "( open");
  EXPECT_EQ(detokenise_wikitext("close ) ( x )"), "close ) (x)");
  EXPECT_EQ(detokenise_wikitext("( \u00A0 )"), "()");
  // Line ends are white space, and quotes pair across them.
  EXPECT_EQ(detokenise_wikitext("\" a \n b \" \" c"), "\"a\nb\" \" c");
}

TEST(Wikitext, golden_counts_and_request_hash) {
  OSDN_NEEDS_SHARED("data/eval/wikitext2_test.raw");
  const auto documents = split_wikitext(
      read_file(test::shared_path("data/eval/wikitext2_test.raw")));
  EXPECT_EQ(documents.size(), 62U);
  std::int64_t words = 0;
  std::size_t bytes = 0;
  std::size_t detokenised_bytes = 0;
  RequestHash hash;
  for (const std::string& document : documents) {
    words += count_words(document);
    bytes += document.size();
    const std::string text = detokenise_wikitext(document);
    detokenised_bytes += text.size();
    hash.add("", text);
  }
  EXPECT_EQ(words, 241335);
  EXPECT_EQ(bytes, 1290527U);
  EXPECT_EQ(detokenised_bytes, 1240466U);
  EXPECT_EQ(hash.count(), 62);
  EXPECT_EQ(hash.hex(),
            "a509fcdfffae003e6ae1e75ad9d8de6226e32c3089c73375c1e7f1db9cc2370e");
}

}  // namespace
}  // namespace osdn::eval
