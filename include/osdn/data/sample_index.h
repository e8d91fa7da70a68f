#pragma once
// The numbering of a run's samples: all rows of epoch 0, then of epoch 1, ...

#include <cstdint>
#include <memory>
#include <vector>

#include "osdn/data/packing.h"

namespace osdn::data {

struct OrderOptions {
  bool shuffle = true;
  std::uint64_t seed = 42;
};

/// Which row of which epoch.
struct SamplePlace {
  std::uint64_t epoch = 0;
  std::uint64_t row = 0;

  bool operator==(const SamplePlace&) const = default;
};

/// Sample index to row, a pure function of (dataset, packing, order, index).
/// An epoch's order depends on (seed, epoch) and the original order alone.
///
/// Cost of finding an index in epoch e that was not asked for before: with
/// packing kStream or without shuffling every epoch has the same number of
/// rows, so it is a division. With kDocuments each epoch has its own number, so
/// the e epochs before are counted, all cores at once: about 50 ns a document
/// and epoch on one core. That is in proportion to the training that led there
/// (a document of 1,000 tokens: 0.05 ns a token) and never noticeable beside
/// it. Counts are kept, so each is made once.
///
/// Not safe from several threads.
class SampleIndex {
 public:
  /// `dataset` must outlive this.
  SampleIndex(const TokenDataset& dataset, const PackingOptions& packing,
              const OrderOptions& order);

  SamplePlace place_of(std::uint64_t sample);
  /// Index of an epoch's first row; of the first row after it for epoch + 1.
  std::uint64_t first_sample_of(std::uint64_t epoch);

  /// The rows of an epoch. The last two epochs asked for are kept.
  const EpochRows& rows_of(std::uint64_t epoch);
  std::vector<Segment> segments(std::uint64_t sample);

 private:
  DocumentOrder order_of(std::uint64_t epoch) const;
  void count_epochs(std::uint64_t number);

  const TokenDataset& dataset_;
  const PackingOptions packing_;
  const OrderOptions order_;
  // Rows of every epoch where they are equal, else 0 and the vector below.
  std::uint64_t rows_per_epoch_ = 0;
  std::vector<std::uint64_t> first_sample_ = {0};

  struct Cached {
    std::uint64_t epoch;
    std::unique_ptr<EpochRows> rows;
  };
  std::vector<Cached> cache_;  // the one used last at the back
};

}  // namespace osdn::data
