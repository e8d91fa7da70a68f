#include "osdn/synth/mqar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "support/message_of.h"

namespace osdn::synth {
namespace {

using testing::HasSubstr;

TEST(Mqar, asks_for_every_key_once_at_its_own_position) {
  MqarOptions o;
  o.length = 128;
  o.pairs = 8;
  for (std::uint64_t index = 0; index < 200; ++index) {
    const MqarDocument d = mqar_document(o, 1, index);
    ASSERT_EQ(d.tokens.size(), 127U);
    ASSERT_EQ(d.labels.size(), 127U);
    std::map<std::int32_t, std::int32_t> value_of;
    std::set<std::int32_t> values;
    for (std::size_t j = 0; j < 16; j += 2) {
      EXPECT_GE(d.tokens[j], 1);
      EXPECT_LT(d.tokens[j], 4096);
      EXPECT_GE(d.tokens[j + 1], 4096);
      EXPECT_LT(d.tokens[j + 1], 8192);
      value_of[d.tokens[j]] = d.tokens[j + 1];
      values.insert(d.tokens[j + 1]);
    }
    EXPECT_EQ(value_of.size(), 8U);
    EXPECT_EQ(values.size(), 8U);
    std::set<std::int32_t> asked;
    for (std::size_t i = 0; i < d.labels.size(); ++i) {
      if (d.labels[i] < 0) {
        EXPECT_EQ(d.labels[i], -100);
        continue;
      }
      EXPECT_GE(i, 16U);
      EXPECT_EQ(i % 2, 0U);
      ASSERT_EQ(value_of.count(d.tokens[i]), 1U);
      EXPECT_EQ(d.labels[i], value_of[d.tokens[i]]);
      asked.insert(d.tokens[i]);
    }
    EXPECT_EQ(asked.size(), 8U);
  }
}

TEST(Mqar, puts_small_gaps_first_most_often) {
  MqarOptions o;
  o.pairs = 1;  // space = 31
  std::vector<int> counts(31);
  constexpr int kDocuments = 20000;
  for (std::uint64_t index = 0; index < kDocuments; ++index) {
    const MqarDocument d = mqar_document(o, 2, index);
    const auto at = std::find_if(d.labels.begin(), d.labels.end(),
                                 [](std::int64_t label) { return label >= 0; });
    ++counts[static_cast<std::size_t>(at - d.labels.begin() - 2) / 2];
  }
  double all = 0;
  for (int i = 0; i < 31; ++i) all += std::pow(i + 1, -0.99);
  for (int i = 0; i < 31; ++i) {
    const double expected = kDocuments * std::pow(i + 1, -0.99) / all;
    EXPECT_NEAR(counts[static_cast<std::size_t>(i)], expected,
                5 * std::sqrt(expected))
        << i;
  }
}

TEST(Mqar, fills_with_zeros_or_with_any_id) {
  MqarOptions o;
  o.random_non_queries = false;
  const MqarDocument zeros = mqar_document(o, 1, 0);
  const MqarDocument filled = mqar_document(MqarOptions(), 1, 0);
  std::set<std::int32_t> ids;
  for (std::size_t i = 8; i < zeros.tokens.size(); ++i) {
    if (zeros.labels[i] >= 0) {
      EXPECT_EQ(zeros.tokens[i], filled.tokens[i]);
    } else {
      EXPECT_EQ(zeros.tokens[i], 0);
      ids.insert(filled.tokens[i]);
    }
  }
  EXPECT_EQ(zeros.labels, filled.labels);
  EXPECT_GT(ids.size(), 45U);
}

TEST(Mqar, repeats_the_context_for_each_pass) {
  MqarOptions o;
  o.passes = 3;
  const MqarDocument d = mqar_document(o, 1, 0);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(d.tokens[i], d.tokens[i + 8]);
    EXPECT_EQ(d.tokens[i], d.tokens[i + 16]);
  }
  EXPECT_EQ(std::count_if(d.labels.begin(), d.labels.end(),
                          [](std::int64_t label) { return label >= 0; }),
            4);
  EXPECT_TRUE(std::all_of(d.labels.begin(), d.labels.begin() + 24,
                          [](std::int64_t label) { return label == -100; }));
}

TEST(Mqar, fits_to_the_last_place) {
  MqarOptions o;
  o.length = 64;
  o.pairs = 16;
  EXPECT_NO_THROW(mqar_document(o, 1, 0));
  o.passes = 3;
  o.pairs = 8;
  EXPECT_NO_THROW(mqar_document(o, 1, 0));
}

TEST(Mqar, refuses_what_does_not_fit) {
  const auto message = [](auto change) {
    MqarOptions o;
    change(o);
    return test::message_of([&] { mqar_document(o, 1, 0); }, ExitCode::kUsage);
  };
  EXPECT_THAT(message([](auto& o) { o.pairs = 17; }), HasSubstr("at most 16"));
  EXPECT_THAT(message([](auto& o) { o.pairs = 0; }), HasSubstr("pairs"));
  EXPECT_THAT(message([](auto& o) { o.vocab_size = 64; }),
              HasSubstr("vocabulary of 64"));
  EXPECT_THAT(message([](auto& o) { o.length = 63; }), HasSubstr("even"));
  EXPECT_THAT(message([](auto& o) { o.passes = 0; }), HasSubstr("passes"));
  EXPECT_THAT(message([](auto& o) { o.passes = 8; }), HasSubstr("at most 3"));
  EXPECT_THAT(message([](auto& o) { o.power = 0; }), HasSubstr("power"));
  EXPECT_THAT(message([](auto& o) { o.power = 0.0 / 0.0; }),
              HasSubstr("power"));
}

}  // namespace
}  // namespace osdn::synth
