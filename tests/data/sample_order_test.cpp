#include "osdn/data/sample_order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace osdn::data {
namespace {

std::vector<std::uint64_t> all_of(const DocumentOrder& order) {
  std::vector<std::uint64_t> documents;
  for (std::uint64_t place = 0; place < order.count(); ++place) {
    documents.push_back(order(place));
  }
  return documents;
}

TEST(DocumentOrder, is_a_permutation_for_every_count) {
  for (std::uint64_t count = 0; count < 300; ++count) {
    for (const std::uint64_t epoch : {0U, 1U, 1000U}) {
      std::vector<bool> seen(count, false);
      for (const std::uint64_t document :
           all_of(DocumentOrder(count, true, 42, epoch))) {
        ASSERT_LT(document, count);
        ASSERT_FALSE(seen[document]) << count;
        seen[document] = true;
      }
    }
  }
}

TEST(DocumentOrder, large_counts_stay_inside_and_do_not_collide) {
  const std::uint64_t count = (std::uint64_t{1} << 40) + 12345;
  const DocumentOrder order(count, true, 7, 3);
  std::map<std::uint64_t, std::uint64_t> seen;
  for (std::uint64_t place = 0; place < 20000; ++place) {
    const std::uint64_t document = order(place);
    ASSERT_LT(document, count);
    ASSERT_TRUE(seen.emplace(document, place).second);
  }
}

TEST(DocumentOrder, without_shuffling_it_is_the_identity) {
  const DocumentOrder order(100, false, 42, 5);
  for (std::uint64_t place = 0; place < 100; ++place) {
    EXPECT_EQ(order(place), place);
  }
}

TEST(DocumentOrder, D2_is_a_function_of_seed_and_epoch_alone) {
  const auto order = [](std::uint64_t seed, std::uint64_t epoch) {
    return all_of(DocumentOrder(500, true, seed, epoch));
  };
  EXPECT_EQ(order(42, 3), order(42, 3));
  EXPECT_NE(order(42, 3), order(42, 4));
  EXPECT_NE(order(42, 3), order(43, 3));
  EXPECT_NE(order(3, 4), order(4, 3));
}

// The values themselves: a change of them would break every resume.
TEST(DocumentOrder, order_is_frozen) {
  EXPECT_EQ(all_of(DocumentOrder(10, true, 42, 0)),
            (std::vector<std::uint64_t>{8, 9, 1, 4, 3, 2, 0, 5, 6, 7}));
}

TEST(DocumentOrder, spreads_evenly) {
  // Over many epochs each place must see each document about equally often,
  // and each ordered pair at places 0 and 1 too.
  constexpr std::uint64_t kCount = 7;
  constexpr int kEpochs = 42000;
  std::vector<int> first(kCount * kCount, 0);
  std::vector<int> pairs(kCount * kCount, 0);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const auto documents = all_of(
        DocumentOrder(kCount, true, 1, static_cast<std::uint64_t>(epoch)));
    for (std::uint64_t place = 0; place < kCount; ++place) {
      ++first[place * kCount + documents[place]];
    }
    ++pairs[documents[0] * kCount + documents[1]];
  }
  for (const int count : first) {
    EXPECT_NEAR(count, kEpochs / 7.0, 6 * std::sqrt(kEpochs / 7.0));
  }
  for (std::uint64_t a = 0; a < kCount; ++a) {
    for (std::uint64_t b = 0; b < kCount; ++b) {
      EXPECT_NEAR(pairs[a * kCount + b], a == b ? 0 : kEpochs / 42.0,
                  6 * std::sqrt(kEpochs / 42.0));
    }
  }
}

}  // namespace
}  // namespace osdn::data
