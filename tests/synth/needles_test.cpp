#include "osdn/synth/needles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "small_tokenizer.h"
#include "support/message_of.h"

namespace osdn::synth {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class Needles : public testing::TestWithParam<NeedleTask> {
 protected:
  Needles()
      : words_(word_lists(std::nullopt, Split::kTest)),
        essay_(read_essay(std::nullopt)) {}

  NeedleGenerator generator(std::int64_t target = 1500,
                            std::uint64_t seed = 1) const {
    return {GetParam(), words_, essay_, small_tokenizer(), target, seed};
  }

  WordLists words_;
  Essay essay_;
};

/// Key and value of each needle in a prompt.
std::vector<std::pair<std::string, std::string>> needles_in(
    const std::string& prompt) {
  static const std::regex needle(
      "One of the special magic (numbers|uuids) for ([a-z0-9-]+) is: "
      "([0-9a-f-]+)\\.");
  std::vector<std::pair<std::string, std::string>> found;
  for (std::sregex_iterator it(prompt.begin(), prompt.end(), needle), end;
       it != end; ++it) {
    found.emplace_back((*it)[2], (*it)[3]);
  }
  return found;
}

TEST_P(Needles, hide_the_answers_once_and_nothing_else_under_the_keys) {
  const NeedleTask& task = GetParam();
  const NeedleGenerator all = generator();
  for (std::uint64_t index = 0; index < 12; ++index) {
    const NeedleDocument d = all.document(index);
    const auto needles = needles_in(d.prompt);
    if (task.hay == Hay::kNeedles) {
      EXPECT_GE(needles.size(), 10U);
    } else {
      EXPECT_EQ(static_cast<std::int64_t>(needles.size()),
                task.keys * task.values);
    }
    std::set<std::string> values;
    std::multiset<std::string> asked;
    for (const auto& [key, value] : needles) {
      EXPECT_TRUE(values.insert(value).second) << value;
      if (std::count(d.queries.begin(), d.queries.end(), key) > 0) {
        asked.insert(value);
      }
      const std::regex form(task.value == NeedleText::kUuid
                                ? "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-"
                                  "[89ab][0-9a-f]{3}-[0-9a-f]{12}"
                                : "[1-9][0-9]{6}");
      EXPECT_TRUE(std::regex_match(value, form)) << value;
    }
    EXPECT_EQ(asked,
              std::multiset<std::string>(d.answers.begin(), d.answers.end()));
    EXPECT_EQ(static_cast<std::int64_t>(d.queries.size()), task.queries);
    EXPECT_EQ(static_cast<std::int64_t>(d.answers.size()),
              task.queries * task.values);
  }
}

TEST_P(Needles, fill_the_target_and_stay_below_it) {
  const NeedleGenerator all = generator();
  for (std::uint64_t index = 0; index < 12; ++index) {
    const NeedleDocument d = all.document(index);
    EXPECT_EQ(d.tokens, static_cast<std::int64_t>(
                            small_tokenizer().encode(d.prompt).size()));
    EXPECT_LE(d.tokens + 128, 1500);
    // A line of a haystack has fewer tokens, a document's needles differ by
    // less: coarse steps would miss more.
    EXPECT_GT(d.tokens + 128, 1500 - 120) << index;
  }
  EXPECT_GT(generator(3000).hay_size(),
            1.5 * static_cast<double>(all.hay_size()));
}

TEST_P(Needles, say_where_the_answers_stand) {
  const NeedleGenerator all = generator();
  for (std::uint64_t index = 0; index < 12; ++index) {
    const NeedleDocument d = all.document(index);
    const std::size_t begin = d.prompt.find('\n') + 1;
    const std::size_t end = d.prompt.rfind('\n');
    ASSERT_EQ(d.depths.size(), d.answers.size());
    for (std::size_t i = 0; i < d.answers.size(); ++i) {
      const std::size_t answer = d.prompt.find(d.answers[i] + ".");
      const std::size_t needle = d.prompt.rfind("One of the special", answer);
      const std::size_t length = answer + d.answers[i].size() + 1 - needle;
      EXPECT_NEAR(d.depths[i],
                  static_cast<double>(needle - begin) /
                      static_cast<double>(end - begin - length),
                  1e-12);
    }
  }
}

TEST_P(Needles, stop_where_even_the_smallest_does_not_fit) {
  EXPECT_THAT(test::message_of([&] { generator(150); }, ExitCode::kUsage),
              HasSubstr("use at least"));
}

TEST_P(Needles, are_given_by_seed_and_index) {
  EXPECT_EQ(generator().document(5).prompt, generator().document(5).prompt);
  EXPECT_NE(generator().document(5).prompt, generator().document(6).prompt);
  EXPECT_NE(generator().document(5).prompt,
            generator(1500, 2).document(5).prompt);
}

INSTANTIATE_TEST_SUITE_P(Tasks, Needles, testing::ValuesIn(needle_tasks()),
                         [](const auto& test) { return test.param.name; });

NeedleDocument document_of(const std::string& name) {
  static const WordLists words = word_lists(std::nullopt, Split::kAll);
  static const Essay essay = read_essay(std::nullopt);
  for (const NeedleTask& task : needle_tasks()) {
    if (task.name == name) {
      return NeedleGenerator(task, words, essay, small_tokenizer(), 1500, 3)
          .document(0);
    }
  }
  throw std::runtime_error(name);
}

TEST(NeedlePrompt, of_one_value_is_in_the_singular) {
  const NeedleDocument d = document_of("niah_single_1");
  EXPECT_THAT(d.prompt,
              StartsWith("A special magic number is hidden within the "
                         "following text. Make sure to memorize it. I will "
                         "quiz you about the number afterwards.\n"));
  const std::string& key = d.queries.front();
  EXPECT_TRUE(d.prompt.ends_with(
      "\nWhat is the special magic number for " + key +
      " mentioned in the provided text? The special magic number for " + key +
      " mentioned in the provided text is"))
      << d.prompt;
}

TEST(NeedlePrompt, of_several_values_or_keys_is_in_the_plural) {
  const NeedleDocument values = document_of("niah_multivalue");
  EXPECT_THAT(values.prompt, StartsWith("Some special magic numbers are"));
  EXPECT_THAT(values.prompt, HasSubstr("\nWhat are all the special magic "
                                       "numbers for " +
                                       values.queries.front() + " mentioned"));
  const NeedleDocument keys = document_of("niah_multiquery");
  ASSERT_EQ(keys.queries.size(), 4U);
  EXPECT_TRUE(keys.prompt.ends_with(" for " + keys.queries[0] + ", " +
                                    keys.queries[1] + ", " + keys.queries[2] +
                                    ", and " + keys.queries[3] +
                                    " mentioned in the provided text are"))
      << keys.prompt;
}

TEST(Sentences, end_behind_marks_and_what_closes_them) {
  EXPECT_EQ(sentences("A b. C? \u201CD!\u201D e.g.x F (g.) H"),
            (std::vector<std::string>{"A b.", "C?", "\u201CD!\u201D",
                                      "e.g.x F (g.)", "H"}));
  EXPECT_TRUE(sentences("").empty());
}

TEST(Essay, repeats_itself_where_it_is_short) {
  const test::TempDir dir;
  std::ofstream(dir / "e.txt") << "\xEF\xBB\xBF One\n two.\t";
  const Essay essay = read_essay(dir / "e.txt");
  EXPECT_EQ(essay.name, "e.txt");
  EXPECT_EQ(first_words(essay, 5), "One two. One two. One");
  std::ofstream(dir / "empty.txt") << " \n";
  EXPECT_THAT(test::message_of([&] { read_essay(dir / "empty.txt"); },
                               ExitCode::kBadInput),
              HasSubstr("no word"));
  std::ofstream(dir / "bad.txt") << "a \xFF";
  EXPECT_THAT(test::message_of([&] { read_essay(dir / "bad.txt"); },
                               ExitCode::kBadInput),
              HasSubstr("offset 2: is not UTF-8"));
}

}  // namespace
}  // namespace osdn::synth
