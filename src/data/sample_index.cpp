#include "osdn/data/sample_index.h"

#include <algorithm>
#include <future>
#include <thread>
#include <utility>

namespace osdn::data {

SampleIndex::SampleIndex(const TokenDataset& dataset,
                         const PackingOptions& packing,
                         const OrderOptions& order)
    : dataset_(dataset), packing_(packing), order_(order) {
  check(packing);
  if (packing.packing == Packing::kStream || !order.shuffle) {
    rows_per_epoch_ = count_rows(dataset, packing, order_of(0));
  }
}

SamplePlace SampleIndex::place_of(std::uint64_t sample) {
  if (rows_per_epoch_ > 0) {
    return {sample / rows_per_epoch_, sample % rows_per_epoch_};
  }
  while (first_sample_.back() <= sample) {
    // About as many epochs as are missing: numbers of rows differ little.
    const std::uint64_t known = first_sample_.size() - 1;
    const std::uint64_t missing =
        known == 0
            ? 1
            : (sample - first_sample_.back()) / (first_sample_.back() / known) +
                  1;
    count_epochs(missing);
  }
  const auto after =
      std::upper_bound(first_sample_.begin(), first_sample_.end(), sample);
  const auto epoch =
      static_cast<std::uint64_t>(after - first_sample_.begin()) - 1;
  return {epoch, sample - first_sample_[epoch]};
}

std::uint64_t SampleIndex::first_sample_of(std::uint64_t epoch) {
  if (rows_per_epoch_ > 0) {
    return epoch * rows_per_epoch_;
  }
  while (first_sample_.size() <= epoch) {
    count_epochs(epoch + 1 - first_sample_.size());
  }
  return first_sample_[epoch];
}

const EpochRows& SampleIndex::rows_of(std::uint64_t epoch) {
  const auto found =
      std::find_if(cache_.begin(), cache_.end(),
                   [&](const Cached& cached) { return cached.epoch == epoch; });
  if (found != cache_.end()) {
    std::rotate(found, found + 1, cache_.end());
    return *cache_.back().rows;
  }
  if (cache_.size() == 2) {
    cache_.erase(cache_.begin());
  }
  cache_.push_back({epoch, std::make_unique<EpochRows>(dataset_, packing_,
                                                       order_of(epoch))});
  return *cache_.back().rows;
}

std::vector<Segment> SampleIndex::segments(std::uint64_t sample) {
  const SamplePlace place = place_of(sample);
  return rows_of(place.epoch).segments(place.row);
}

DocumentOrder SampleIndex::order_of(std::uint64_t epoch) const {
  return {dataset_.document_count(), order_.shuffle, order_.seed, epoch};
}

void SampleIndex::count_epochs(std::uint64_t number) {
  const std::uint64_t at_once =
      std::min<std::uint64_t>(number, std::thread::hardware_concurrency());
  const std::uint64_t known = first_sample_.size() - 1;
  if (at_once <= 1) {
    first_sample_.push_back(first_sample_.back() +
                            count_rows(dataset_, packing_, order_of(known)));
    return;
  }
  std::vector<std::future<std::uint64_t>> counts;
  for (std::uint64_t i = 0; i < at_once; ++i) {
    counts.push_back(std::async(std::launch::async, [this, epoch = known + i] {
      return count_rows(dataset_, packing_, order_of(epoch));
    }));
  }
  for (std::future<std::uint64_t>& count : counts) {
    first_sample_.push_back(first_sample_.back() + count.get());
  }
}

}  // namespace osdn::data
