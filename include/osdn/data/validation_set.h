#pragma once
// One pass over held-out data, in the order of the shards.

#include <cstdint>
#include <memory>

#include "osdn/data/micro_batch.h"
#include "osdn/data/packing.h"
#include "osdn/data/token_dataset.h"

namespace osdn::data {

struct ValidationOptions {
  PackingOptions packing;
  std::int64_t micro_batch = 1;
  std::int64_t max_tokens = 0;  ///< 0: the whole set
  std::int64_t world_size = 1;
  std::int64_t rank = 0;
};

/// Rows are packed as for training, without shuffling; the first max_tokens
/// tokens are taken exactly, the last row being cut there. Which tokens and
/// labels those are depends neither on micro_batch nor on the ranks, so that a
/// token-weighted mean over all micro-batches of all ranks is one number. It
/// holds no state: each call of micro_batch() gives the same.
class ValidationSet {
 public:
  /// Throws Error (kUsage) for options that do not go together.
  ValidationSet(std::shared_ptr<const TokenDataset> dataset,
                const ValidationOptions& options);

  /// Micro-batches of this rank: as many as of any other, the last one with
  /// fewer rows or none.
  std::int64_t size() const;
  MicroBatch micro_batch(std::int64_t index) const;

  /// Of all ranks together.
  std::int64_t token_count() const { return token_count_; }
  std::int64_t row_count() const { return row_count_; }

 private:
  std::vector<Segment> segments(std::int64_t row) const;

  std::shared_ptr<const TokenDataset> dataset_;
  ValidationOptions options_;
  EpochRows rows_;
  std::int64_t row_count_ = 0;
  std::int64_t token_count_ = 0;
  std::int64_t last_row_tokens_ = 0;  // that are taken
};

}  // namespace osdn::data
