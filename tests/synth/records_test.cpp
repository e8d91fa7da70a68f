#include "osdn/synth/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "small_tokenizer.h"
#include "support/message_of.h"

namespace osdn::synth {
namespace {

using testing::HasSubstr;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(c));
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end = 0; begin <= text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
  }
  return lines;
}

int occurrences(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

struct RecordLine {
  std::string name;
  std::string value;
  std::size_t page;
};

/// Reads a document as a person would.
std::vector<RecordLine> records_in(const std::string& text) {
  std::vector<RecordLine> records;
  std::size_t page = 0;
  for (const std::string& line : lines_of(text)) {
    if (line.empty()) ++page;
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    records.push_back({line.substr(0, colon), line.substr(colon + 2), page});
  }
  return records;
}

class Records : public testing::TestWithParam<RecordMode> {
 protected:
  Records() : words_(word_lists(std::nullopt, Split::kTest)) {}

  RecordDocument document(std::uint64_t index, std::int64_t count) const {
    RecordOptions o;
    o.mode = GetParam();
    o.records = count;
    return RecordGenerator(o, words_, nullptr, 5).document(index);
  }

  WordLists words_;
};

TEST_P(Records, have_as_many_lines_as_they_say_and_the_label_where_they_say) {
  const RecordMode mode = GetParam();
  for (std::uint64_t index = 0; index < 40; ++index) {
    for (const std::int64_t count : {5, 16, 41, 128}) {
      const RecordDocument d = document(index, count);
      const std::vector<RecordLine> records = records_in(d.text);
      ASSERT_EQ(static_cast<std::int64_t>(records.size()), count) << d.text;
      EXPECT_EQ(d.records, count);
      EXPECT_EQ(static_cast<std::int64_t>(records.back().page) + 1, d.pages);
      EXPECT_LE(d.pages, 6);
      EXPECT_FALSE(d.text.ends_with('\n'));

      std::vector<std::size_t> own;
      for (std::size_t i = 0; i < records.size(); ++i) {
        if (records[i].name == d.key) own.push_back(i);
      }
      const bool repeats =
          mode == RecordMode::kSame || mode == RecordMode::kUpdate;
      ASSERT_EQ(own.size(), repeats ? 3U : 1U) << d.text;
      const std::size_t labelled =
          mode == RecordMode::kUpdate ? own.back() : own.front();
      EXPECT_EQ(records[labelled].value, d.value);
      EXPECT_EQ(static_cast<std::size_t>(d.depth * static_cast<double>(count)),
                labelled);
      for (const std::size_t i : own) {
        EXPECT_EQ(records[i].value == d.value,
                  mode != RecordMode::kUpdate || i == labelled);
      }
      for (std::size_t i = 1; i < own.size(); ++i) {
        EXPECT_LT(records[own[i - 1]].page, records[own[i]].page);
      }
      const std::size_t wrong = mode == RecordMode::kUpdate ? 2
                                : mode == RecordMode::kSame
                                    ? records.size() - 3
                                    : records.size() - 1;
      EXPECT_EQ(d.distractors.size(), wrong);
      EXPECT_EQ(std::count(d.distractors.begin(), d.distractors.end(), d.value),
                0);
    }
  }
}

TEST_P(Records, names_and_values_stand_in_their_own_lines_only) {
  for (std::uint64_t index = 0; index < 10; ++index) {
    const RecordDocument d = document(index, 64);
    const std::string text = lower(d.text);
    const std::vector<RecordLine> records = records_in(d.text);
    for (const RecordLine& record : records) {
      EXPECT_GE(record.value.size(), 2U);
      const auto own = std::count_if(
          records.begin(), records.end(),
          [&](const RecordLine& r) { return r.value == record.value; });
      EXPECT_EQ(occurrences(text, lower(record.value)), own) << record.value;
      const auto named = std::count_if(
          records.begin(), records.end(),
          [&](const RecordLine& r) { return r.name == record.name; });
      EXPECT_EQ(occurrences(text, lower(record.name)), named) << record.name;
    }
  }
}

TEST_P(Records, spread_the_label_over_the_tenths) {
  for (std::uint64_t index = 0; index < 40; ++index) {
    const RecordDocument d = document(index, 128);
    // Copies push the first or last tenth aside by their own number.
    EXPECT_NEAR(
        std::floor(d.depth * 10), static_cast<double>(index % 10),
        GetParam() == RecordMode::kSame || GetParam() == RecordMode::kUpdate
            ? 1
            : 0);
  }
}

TEST_P(Records, are_given_by_seed_and_index) {
  const RecordDocument a = document(3, 32);
  EXPECT_EQ(a.text, document(3, 32).text);
  EXPECT_NE(a.text, document(4, 32).text);
}

INSTANTIATE_TEST_SUITE_P(Modes, Records,
                         testing::Values(RecordMode::kUnique, RecordMode::kSame,
                                         RecordMode::kUpdate,
                                         RecordMode::kScoped),
                         [](const auto& test) {
                           return std::string(name_of(test.param));
                         });

TEST(RecordsOfTokens, are_the_most_that_fit) {
  const tokenizer::Tokenizer& tokenizer = small_tokenizer();
  const WordLists words = word_lists(std::nullopt, Split::kAll);
  for (const RecordMode mode : {RecordMode::kUnique, RecordMode::kSame,
                                RecordMode::kUpdate, RecordMode::kScoped}) {
    RecordOptions o;
    o.mode = mode;
    o.tokens = 1500;
    const RecordGenerator generator(o, words, &tokenizer, 1);
    for (std::uint64_t index = 0; index < 5; ++index) {
      const RecordDocument d = generator.document(index);
      EXPECT_EQ(d.tokens,
                static_cast<std::int64_t>(tokenizer.encode(d.text).size()));
      EXPECT_LE(d.tokens, 1500);
      // The next record does not fit, and has fewer tokens than this.
      EXPECT_GT(d.tokens, 1500 - 150);
    }
  }
}

TEST(RecordOptions, are_checked) {
  const WordLists words = word_lists(std::nullopt, Split::kAll);
  const auto message = [&](auto change) {
    RecordOptions o;
    change(o);
    return test::message_of(
        [&] { RecordGenerator(o, words, nullptr, 1).document(0); },
        ExitCode::kUsage);
  };
  EXPECT_THAT(message([](auto&) {}), HasSubstr("--tokenizer"));
  EXPECT_THAT(message([](auto& o) { o.records = 0; }), HasSubstr("at least 1"));
  EXPECT_THAT(message([](auto& o) {
                o.mode = RecordMode::kSame;
                o.records = 4;
              }),
              HasSubstr("at least 5"));
  EXPECT_THAT(message([](auto& o) {
                o.mode = RecordMode::kUpdate;
                o.records = 40;
                o.repeat = 1;
              }),
              HasSubstr("2 to 20"));
  const WordLists few{"few", {"bell", "drum"}, {"red", "new"}};
  RecordOptions many;
  many.records = 50;
  EXPECT_THAT(test::message_of(
                  [&] { RecordGenerator(many, few, nullptr, 1).document(0); },
                  ExitCode::kUsage),
              HasSubstr("(few) of 2 nouns and 2 adjectives"));
  test::message_of([] { record_mode_from_name("other"); }, ExitCode::kUsage);
}

TEST(TrainingText, ends_with_query_and_answer) {
  RecordDocument d;
  d.text = "Title\nA: 1\nB: 2";
  d.key = "A";
  d.value = "1";
  EXPECT_EQ(training_text(d), "Title\nA: 1\nB: 2. A: 1");
}

}  // namespace
}  // namespace osdn::synth
