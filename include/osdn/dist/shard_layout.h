#pragma once
// How the parameters of a model lie in flat buckets, and which part of each a
// rank has (ZeRO stage 1, Rajbhandari et al. 2020): a bucket is as long as
// `ranks` equal shards, padded at its end, whatever the parameter counts.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "osdn/core/tensor_view.h"

namespace osdn::dist {

/// Every tensor, and every shard, begins at a multiple of this many elements.
inline constexpr std::int64_t kShardAlignment = 64;

struct FlatTensor {
  DType dtype = DType::kF32;
  std::int64_t numel = 0;
};

struct Bucket {
  struct Item {
    std::size_t tensor = 0;  ///< index into the tensors given
    std::int64_t begin = 0;  ///< in the bucket, in elements
  };
  DType dtype = DType::kF32;
  std::vector<Item> items{};
  std::int64_t shard = 0;  ///< elements of each rank
  std::int64_t size = 0;   ///< ranks * shard
};

/// The part of a tensor that lies in a rank's shard.
struct Piece {
  std::size_t tensor = 0;
  std::int64_t begin = 0;  ///< in the tensor
  std::int64_t count = 0;  ///< 0: none of it
  std::int64_t at = 0;     ///< in the bucket
};

/// Buckets of one dtype each, of at least so many elements as long as there are
/// tensors left; tensors in the given order (that in which their gradients
/// come).
std::vector<Bucket> make_buckets(std::span<const FlatTensor> tensors, int ranks,
                                 std::int64_t bucket_elements);

/// One for each item of the bucket.
std::vector<Piece> pieces_of(const Bucket& bucket,
                             std::span<const FlatTensor> tensors, int rank);

/// Deals things of these sizes out so that the largest share is small: for each
/// the rank that takes it. A pure function of the sizes.
std::vector<int> deal_by_size(std::span<const std::int64_t> sizes, int ranks);

}  // namespace osdn::dist
