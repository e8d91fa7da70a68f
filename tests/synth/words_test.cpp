#include "osdn/synth/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "support/message_of.h"
#include "support/shared_data.h"
#include "support/temp_dir.h"

namespace osdn::synth {
namespace {

using testing::HasSubstr;

std::set<std::string> as_set(const std::vector<std::string>& words) {
  return {words.begin(), words.end()};
}

TEST(WordLists, train_and_test_share_no_word) {
  const WordLists train = word_lists(std::nullopt, Split::kTrain);
  const WordLists test = word_lists(std::nullopt, Split::kTest);
  const WordLists all = word_lists(std::nullopt, Split::kAll);
  EXPECT_EQ(all.name, "built-in");
  for (const auto list : {&WordLists::nouns, &WordLists::adjectives}) {
    std::set<std::string> both = as_set(train.*list);
    for (const std::string& word : test.*list) {
      EXPECT_TRUE(both.insert(word).second) << word;
    }
    EXPECT_EQ(both, as_set(all.*list));
    EXPECT_GT((train.*list).size(), 60U);
    EXPECT_GT((test.*list).size(), 60U);
  }
}

TEST(WordLists, of_a_folder_are_stripped_and_taken_once) {
  const test::TempDir dir;
  std::ofstream nouns(dir / "nounlist.txt");
  std::ofstream adjectives(dir / "adjectivelist.txt");
  for (int i = 0; i < 12; ++i) {
    nouns << " noun" << i << "\t\r\n\nnoun0\n";
    adjectives << "adjective" << i << "\n";
  }
  nouns.close();
  adjectives.close();
  const WordLists lists = word_lists(dir.path(), Split::kAll);
  EXPECT_EQ(lists.nouns.size(), 12U);
  EXPECT_EQ(lists.nouns[11], "noun11");
  EXPECT_EQ(lists.name, dir.path().filename().string());
}

TEST(WordLists, that_are_missing_or_short_are_refused) {
  const test::TempDir dir;
  EXPECT_THAT(test::message_of([&] { word_lists(dir.path(), Split::kAll); },
                               ExitCode::kBadInput),
              HasSubstr("nounlist.txt"));
  std::ofstream(dir / "nounlist.txt") << "one\ntwo\n";
  EXPECT_THAT(test::message_of([&] { word_lists(dir.path(), Split::kAll); },
                               ExitCode::kBadInput),
              HasSubstr("2 words of the split are too few"));
  std::ofstream(dir / "nounlist.txt") << "one\n\xC3\n";
  EXPECT_THAT(test::message_of([&] { word_lists(dir.path(), Split::kAll); },
                               ExitCode::kBadInput),
              HasSubstr("offset 4: is not UTF-8"));
  test::message_of([] { split_from_name("validation"); }, ExitCode::kUsage);
}

TEST(WordLists, published_lists_are_read_whole) {
  OSDN_NEEDS_SHARED("data/jrt/nounlist.txt");
  const WordLists lists =
      word_lists(test::shared_path("data/jrt"), Split::kAll);
  EXPECT_EQ(lists.name, "jrt");
  EXPECT_GT(lists.nouns.size(), 6700U);
  EXPECT_GT(lists.adjectives.size(), 900U);
}

}  // namespace
}  // namespace osdn::synth
