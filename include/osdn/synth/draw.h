#pragma once
// Random draws of the generators. Every document has a stream of its own, so
// that it depends on (seed, task, index) alone: not on how many documents there
// are, nor on threads or order. The generator is xoshiro256** seeded by
// SplitMix64 (core/random.h); bounded numbers reject. Nothing comes from the
// standard library's distributions, whose output differs between libraries, and
// no number from the C library's mathematics: files are the same bytes
// everywhere.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "osdn/core/random.h"

namespace osdn::synth {

/// Xoshiro256(derive_seed(derive_seed(seed, XXH3-64 of the task's name),
/// index)).
Xoshiro256 document_stream(std::uint64_t seed, std::string_view task,
                           std::uint64_t index);

/// Uniform in [first, last].
std::int64_t draw_between(Xoshiro256& random, std::int64_t first,
                          std::int64_t last);

/// `count` different numbers of [begin, end) in the order drawn; number after
/// number, those that were there already drawn again. Throws Error when there
/// are not so many.
std::vector<std::int64_t> draw_distinct(Xoshiro256& random, std::size_t count,
                                        std::int64_t begin, std::int64_t end);

/// `count` different indices drawn one after another without replacement, each
/// with probability proportional to its weight among those that are left.
/// Throws Error when fewer weights are above 0.
std::vector<std::size_t> draw_weighted(Xoshiro256& random, std::size_t count,
                                       std::vector<std::uint64_t> weights);

/// Fisher and Yates: for i from the last place down to 1, swaps i with
/// below(i + 1).
template <typename T>
void shuffle(Xoshiro256& random, std::vector<T>& items) {
  for (std::size_t i = items.size(); i-- > 1;) {
    std::swap(items[i], items[static_cast<std::size_t>(random.below(i + 1))]);
  }
}

/// floor(2^32 n^exponent), by additions, multiplications and divisions alone.
/// n at least 1, exponent in [-4, 0].
std::uint64_t power_weight(std::uint64_t n, double exponent);

}  // namespace osdn::synth
