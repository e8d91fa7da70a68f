#include "osdn/eval/text_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/hash.h"
#include "osdn/core/log.h"
#include "support/message_of.h"
#include "support/temp_dir.h"

namespace osdn::eval {
namespace {

using testing::HasSubstr;

class TextData : public testing::Test {
 protected:
  std::filesystem::path put(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((dir_ / name).parent_path());
    write_file_atomic(dir_ / name, text);
    return dir_ / name;
  }
  osdn::test::TempDir dir_;
};

constexpr const char* kRaw = " \n = One = \n \n it 's @-@ \n = Two = \n b \n";

TEST_F(TextData, documents_with_their_words_and_bytes) {
  const DataSet set = read_text_documents(
      {.inputs = {put("b.txt", "one two\n\nthr\u00E9e\n"),
                  put("a.jsonl", "{\"body\": \"x\"}\n{\"body\": \"\"}\n")},
       .split = "lines",
       .field = "body"});
  ASSERT_EQ(set.documents.size(), 3U);
  EXPECT_EQ(set.documents[0].text, "one two");
  EXPECT_EQ(set.documents[0].words, 2);
  EXPECT_EQ(set.documents[1].bytes, 6);
  EXPECT_EQ(set.documents[2].text, "x");
  EXPECT_EQ(set.dropped, 2);
  EXPECT_EQ(set.name, "b.txt,a.jsonl");
}

TEST_F(TextData, hash_follows_every_file) {
  const auto a = put("a.txt", "1");
  const auto b = put("b.txt", "2");
  EXPECT_EQ(read_text_documents({.inputs = {a}}).hash, sha256("1"));
  const std::string both = read_text_documents({.inputs = {a, b}}).hash;
  EXPECT_EQ(both, sha256(sha256("1") + sha256("2")));
  EXPECT_NE(read_text_documents({.inputs = {b, a}}).hash, both);
}

TEST_F(TextData, files_of_one_name_are_told_apart) {
  const auto a = put("one/a.txt", "1");
  const auto b = put("two/a.txt", "2");
  const auto c = put("two/c.txt", "3");
  const DataSet set =
      read_text_documents({.inputs = {dir_ / "one", dir_ / "two"}});
  EXPECT_EQ(set.documents.size(), 3U);
  EXPECT_EQ(set.name, concat(a.string(), ",", b.string(), ",c.txt"));
}

TEST_F(TextData, a_file_is_not_read_twice) {
  const auto a = put("one/a.txt", "1");
  std::filesystem::create_symlink(a, dir_ / "link.txt");
  for (const std::vector<std::filesystem::path>& inputs :
       {std::vector{a, a}, std::vector{dir_ / "one", a},
        std::vector{a, dir_ / "one/../one/a.txt"},
        std::vector{dir_ / "link.txt", a}}) {
    EXPECT_EQ(read_text_documents({.inputs = inputs}).documents.size(), 1U);
  }
}

TEST_F(TextData, sets_of_tasks_are_no_texts_where_there_are_others) {
  for (const char* set : {"piqa.jsonl", "fda.jsonl.zst", "nq_512.jsonl",
                          "qasper.jsonl", "wikitext.jsonl"}) {
    const std::filesystem::path folder = dir_ / concat("beside ", set);
    put(concat("beside ", set, "/", set), "{}\n");
    const auto text = put(concat("beside ", set, "/a.txt"), "1");
    std::string said;
    const log::Capture capture(
        [&](log::Level, std::string_view line) { said += line; });
    EXPECT_EQ(read_text_documents({.inputs = {folder}}).name, "a.txt");
    EXPECT_THAT(said, HasSubstr((folder / set).string()));
    EXPECT_EQ(read_text_documents({.inputs = {folder / set, text}}).name,
              "a.txt");
  }
  const auto alone = put("alone/wikitext.jsonl", "{\"page\": \"1\"}\n");
  EXPECT_EQ(read_text_documents({.inputs = {dir_ / "alone"}, .field = "page"})
                .documents.size(),
            1U);
}

TEST_F(TextData, limit_takes_the_first_documents) {
  const auto file = put("a.txt", "1\n2\n3\n");
  const DataSet set =
      read_text_documents({.inputs = {file}, .split = "lines", .limit = 2});
  ASSERT_EQ(set.documents.size(), 2U);
  EXPECT_EQ(set.documents[1].text, "2");
  EXPECT_EQ(read_wikitext(put("w.raw", kRaw), 1).documents.size(), 1U);
}

TEST_F(TextData, wikitext_that_is_no_text_is_refused) {
  EXPECT_THROW(read_wikitext(put("w.raw.zst", kRaw), std::nullopt), Error);
  const std::string bad = std::string(kRaw) + "\xff\xfe";
  EXPECT_THROW(read_wikitext(put("bad.raw", bad), std::nullopt), Error);
}

TEST_F(TextData, wikitext_counts_before_the_detokenisation) {
  const DataSet set = read_wikitext(put("w.raw", kRaw), std::nullopt);
  ASSERT_EQ(set.documents.size(), 2U);
  EXPECT_EQ(set.documents[0].text, " = One =\n\nit's-");
  EXPECT_EQ(set.documents[0].words, 8);
  EXPECT_EQ(set.documents[0].bytes, 23);
}

TEST_F(TextData, wikitext_pages_of_the_published_layout) {
  const DataSet raw = read_wikitext(put("w.raw", kRaw), std::nullopt);
  const DataSet pages =
      read_wikitext(put("wikitext.jsonl",
                        "{\"page\": \" = One = \\n \\n it 's @-@ \"}\n"
                        "{\"page\": \" = Two = \\n b \\n\"}\n"),
                    std::nullopt);
  ASSERT_EQ(pages.documents.size(), raw.documents.size());
  for (std::size_t i = 0; i < raw.documents.size(); ++i) {
    EXPECT_EQ(pages.documents[i].words, raw.documents[i].words);
  }
  EXPECT_EQ(pages.documents[1].text, raw.documents[1].text);
}

TEST_F(TextData, wikitext_that_cannot_be_read) {
  EXPECT_THAT(
      test::message_of([&] { read_wikitext(dir_ / "no.raw", std::nullopt); },
                       ExitCode::kBadInput),
      HasSubstr("no.raw"));
  const auto file = put("x.jsonl", "{\"text\": \"a\"}\n");
  EXPECT_THAT(test::message_of([&] { read_wikitext(file, std::nullopt); },
                               ExitCode::kBadInput),
              HasSubstr("page"));
}

}  // namespace
}  // namespace osdn::eval
