#include "osdn/eval/rolling_windows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <vector>

#include "osdn/core/error.h"

namespace osdn::eval {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int32_t kPrefix = 1000;

// Inputs and scored tokens written out.
struct Written {
  std::vector<std::int32_t> input;
  std::vector<std::int32_t> scored;
  bool operator==(const Written&) const = default;
};

std::vector<Written> written(std::int32_t tokens,
                             std::optional<std::int64_t> max_len) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens));
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<Written> all;
  for (const RollingWindow& window : rolling_windows(tokens, max_len)) {
    all.push_back(
        {window_input(window, ids, kPrefix),
         {ids.begin() + window.score_begin, ids.begin() + window.score_end}});
  }
  return all;
}

TEST(RollingWindows, a_document_that_fits) {
  EXPECT_THAT(written(3, 4), ElementsAre(Written{{kPrefix, 0, 1}, {0, 1, 2}}));
  EXPECT_THAT(written(4, 4),
              ElementsAre(Written{{kPrefix, 0, 1, 2}, {0, 1, 2, 3}}));
  EXPECT_THAT(written(1, 4), ElementsAre(Written{{kPrefix}, {0}}));
}

TEST(RollingWindows, blocks_begin_with_the_token_before_them) {
  EXPECT_THAT(written(8, 4),
              ElementsAre(Written{{kPrefix, 0, 1, 2}, {0, 1, 2, 3}},
                          Written{{3, 4, 5, 6}, {4, 5, 6, 7}}));
}

TEST(RollingWindows, the_last_short_block_is_right_aligned) {
  EXPECT_THAT(written(10, 4),
              ElementsAre(Written{{kPrefix, 0, 1, 2}, {0, 1, 2, 3}},
                          Written{{3, 4, 5, 6}, {4, 5, 6, 7}},
                          Written{{5, 6, 7, 8}, {8, 9}}));
  EXPECT_THAT(written(5, 4),
              ElementsAre(Written{{kPrefix, 0, 1, 2}, {0, 1, 2, 3}},
                          Written{{0, 1, 2, 3}, {4}}));
}

TEST(RollingWindows, no_limit_is_one_pass) {
  EXPECT_THAT(written(5, std::nullopt),
              ElementsAre(Written{{kPrefix, 0, 1, 2, 3}, {0, 1, 2, 3, 4}}));
}

TEST(RollingWindows, nothing_to_score) {
  EXPECT_THAT(rolling_windows(0, 4), IsEmpty());
  EXPECT_THAT(rolling_windows(0, std::nullopt), IsEmpty());
}

TEST(RollingWindows, a_window_of_no_tokens_is_refused) {
  EXPECT_THROW(rolling_windows(5, 0), Error);
  EXPECT_THROW(rolling_windows(5, -1), Error);
}

TEST(RollingWindows, every_token_is_scored_once_behind_its_predecessor) {
  for (std::int64_t tokens = 1; tokens < 40; ++tokens) {
    for (std::int64_t max_len = 1; max_len < 45; ++max_len) {
      std::int64_t next = 0;
      for (const RollingWindow& window : rolling_windows(tokens, max_len)) {
        ASSERT_EQ(window.score_begin, next);
        ASSERT_GT(window.scored(), 0);
        next = window.score_end;
        ASSERT_LE(window.input_length(), max_len);
        ASSERT_GE(window.input_begin, -1);
        ASSERT_EQ(window.input_end, window.score_end - 1);
        ASSERT_GE(window.first_logit(), 0);
        ASSERT_EQ(window.first_logit() + window.scored(),
                  window.input_length());
        // All of the context that fits is used.
        ASSERT_TRUE(window.input_length() == max_len ||
                    window.input_begin == -1);
      }
      ASSERT_EQ(next, tokens);
    }
  }
}

}  // namespace
}  // namespace osdn::eval
