#pragma once
// The order in which an epoch takes the documents.

#include <cstdint>

namespace osdn::data {

/// A permutation of [0, count) that is a pure function of (seed, epoch) and the
/// original order, computed point by point without memory.
///
/// A Feistel network of 8 rounds over the smallest power of two that holds
/// `count` (two unequal halves when its exponent is odd), its round function
/// SplitMix64 keyed by derive_seed(derive_seed(seed, epoch), round); a value
/// outside [0, count) goes through again until it falls inside (cycle walking;
/// less than two passes on average).
class DocumentOrder {
 public:
  /// Without shuffling the order is the identity in every epoch.
  DocumentOrder(std::uint64_t count, bool shuffle, std::uint64_t seed,
                std::uint64_t epoch);

  std::uint64_t count() const { return count_; }

  /// The document at a place of the epoch's order; place < count().
  std::uint64_t operator()(std::uint64_t place) const;

 private:
  static constexpr int kRounds = 8;

  std::uint64_t permute(std::uint64_t value) const;

  std::uint64_t count_;
  bool shuffle_;
  unsigned low_bits_ = 0;   // of the lower half
  unsigned high_bits_ = 0;  // of the upper half
  std::uint64_t keys_[kRounds] = {};
};

}  // namespace osdn::data
