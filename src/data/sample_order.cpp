#include "osdn/data/sample_order.h"

#include <bit>

#include "osdn/core/random.h"

namespace osdn::data {

DocumentOrder::DocumentOrder(std::uint64_t count, bool shuffle,
                             std::uint64_t seed, std::uint64_t epoch)
    : count_(count), shuffle_(shuffle && count > 1) {
  if (!shuffle_) {
    return;
  }
  const auto bits = static_cast<unsigned>(std::bit_width(count - 1));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
  const std::uint64_t epoch_seed = derive_seed(seed, epoch);
  for (int round = 0; round < kRounds; ++round) {
    keys_[round] = derive_seed(epoch_seed, static_cast<std::uint64_t>(round));
  }
}

std::uint64_t DocumentOrder::operator()(std::uint64_t place) const {
  if (!shuffle_) {
    return place;
  }
  do {
    place = permute(place);
  } while (place >= count_);
  return place;
}

std::uint64_t DocumentOrder::permute(std::uint64_t value) const {
  // Each round changes one half by a function of the other, which can be
  // undone whatever the function: hence a permutation, for uneven halves too.
  const std::uint64_t low_mask = (std::uint64_t{1} << low_bits_) - 1;
  const std::uint64_t high_mask = (std::uint64_t{1} << high_bits_) - 1;
  std::uint64_t low = value & low_mask;
  std::uint64_t high = value >> low_bits_;
  for (int round = 0; round < kRounds; round += 2) {
    high = (high + SplitMix64(keys_[round] ^ low).next()) & high_mask;
    low = (low + SplitMix64(keys_[round + 1] ^ high).next()) & low_mask;
  }
  return high << low_bits_ | low;
}

}  // namespace osdn::data
