#include "osdn/dist/shard_layout.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "osdn/core/narrow.h"

namespace osdn::dist {

namespace {

std::int64_t aligned(std::int64_t elements) {
  return div_up(elements, kShardAlignment) * kShardAlignment;
}

void close(Bucket& bucket, int ranks) {
  bucket.shard = aligned(div_up(bucket.size, std::int64_t{ranks}));
  bucket.size = bucket.shard * ranks;
}

}  // namespace

std::vector<Bucket> make_buckets(std::span<const FlatTensor> tensors, int ranks,
                                 std::int64_t bucket_elements) {
  std::vector<Bucket> done;
  std::map<DType, Bucket> open;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Bucket& bucket = open[tensors[i].dtype];
    bucket.dtype = tensors[i].dtype;
    bucket.items.push_back({i, bucket.size});
    bucket.size += aligned(tensors[i].numel);
    if (bucket.size >= bucket_elements) {
      done.push_back(std::move(bucket));
      open.erase(tensors[i].dtype);
    }
  }
  for (auto& [dtype, bucket] : open) done.push_back(std::move(bucket));
  // In the order in which they fill.
  std::sort(done.begin(), done.end(), [](const Bucket& a, const Bucket& b) {
    return a.items.back().tensor < b.items.back().tensor;
  });
  for (Bucket& bucket : done) close(bucket, ranks);
  return done;
}

std::vector<Piece> pieces_of(const Bucket& bucket,
                             std::span<const FlatTensor> tensors, int rank) {
  const std::int64_t first = rank * bucket.shard;
  const std::int64_t last = first + bucket.shard;
  std::vector<Piece> out;
  for (const Bucket::Item& item : bucket.items) {
    const std::int64_t begin = std::max(first, item.begin);
    const std::int64_t end =
        std::min(last, item.begin + tensors[item.tensor].numel);
    const bool here = begin < end;
    out.push_back({item.tensor, here ? begin - item.begin : 0,
                   here ? end - begin : 0, here ? begin : first});
  }
  return out;
}

std::vector<int> deal_by_size(std::span<const std::int64_t> sizes, int ranks) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(
      order.begin(), order.end(),
      [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  std::vector<std::int64_t> load(static_cast<std::size_t>(ranks));
  std::vector<int> owner(sizes.size());
  for (const std::size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    owner[i] = static_cast<int>(least - load.begin());
    *least += sizes[i];
  }
  return owner;
}

}  // namespace osdn::dist
