#include "osdn/dist/shard_layout.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace osdn::dist {
namespace {

std::vector<FlatTensor> tensors() {
  return {{DType::kBF16, 1000}, {DType::kF32, 7},   {DType::kBF16, 1},
          {DType::kBF16, 4096}, {DType::kF32, 130}, {DType::kBF16, 63}};
}

// Every element of every tensor lies in one rank's shard, whatever the counts.
TEST(ShardLayout, every_element_has_one_rank) {
  const auto all = tensors();
  for (const int ranks : {1, 2, 3, 7, 64}) {
    for (const std::int64_t elements : {1, 500, 1000000}) {
      std::vector<std::vector<int>> owners;
      for (const FlatTensor& tensor : all) {
        owners.emplace_back(static_cast<std::size_t>(tensor.numel), 0);
      }
      for (const Bucket& bucket : make_buckets(all, ranks, elements)) {
        EXPECT_EQ(bucket.size, ranks * bucket.shard);
        EXPECT_EQ(bucket.shard % kShardAlignment, 0);
        for (int rank = 0; rank < ranks; ++rank) {
          const auto pieces = pieces_of(bucket, all, rank);
          ASSERT_EQ(pieces.size(), bucket.items.size());
          for (std::size_t i = 0; i < pieces.size(); ++i) {
            const Piece& piece = pieces[i];
            EXPECT_EQ(piece.tensor, bucket.items[i].tensor);
            EXPECT_GE(piece.at, rank * bucket.shard);
            EXPECT_LE(piece.at + piece.count, (rank + 1) * bucket.shard);
            if (piece.count == 0) continue;
            EXPECT_EQ(piece.at - piece.begin, bucket.items[i].begin);
            for (std::int64_t e = 0; e < piece.count; ++e) {
              ++owners[piece.tensor][static_cast<std::size_t>(piece.begin + e)];
            }
          }
        }
      }
      for (const auto& tensor : owners) {
        EXPECT_TRUE(std::all_of(tensor.begin(), tensor.end(),
                                [](int count) { return count == 1; }));
      }
    }
  }
}

TEST(ShardLayout, a_bucket_has_one_dtype_and_is_as_long_as_asked) {
  const auto all = tensors();
  const auto buckets = make_buckets(all, 2, 1024);
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    for (const Bucket::Item& item : buckets[i].items) {
      EXPECT_EQ(all[item.tensor].dtype, buckets[i].dtype);
      EXPECT_EQ(item.begin % kShardAlignment, 0);
    }
  }
  // In the order in which their last gradient comes.
  for (std::size_t i = 1; i < buckets.size(); ++i) {
    EXPECT_LT(buckets[i - 1].items.back().tensor,
              buckets[i].items.back().tensor);
  }
  // 1000 is rounded up to 1024 elements: full.
  EXPECT_EQ(buckets.front().items.size(), 1U);
}

TEST(ShardLayout, tensors_are_dealt_so_that_the_largest_share_is_small) {
  const std::vector<std::int64_t> sizes = {10, 1, 1, 9, 1, 1, 1, 8};
  const std::vector<int> owner = deal_by_size(sizes, 3);
  std::vector<std::int64_t> load(3);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    load[static_cast<std::size_t>(owner[i])] += sizes[i];
  }
  EXPECT_LE(*std::max_element(load.begin(), load.end()), 11);
  EXPECT_EQ(deal_by_size(sizes, 1), std::vector<int>(8, 0));
  // More ranks than things: some have none.
  EXPECT_EQ(deal_by_size(std::vector<std::int64_t>{5}, 4), std::vector<int>{0});
}

}  // namespace
}  // namespace osdn::dist
