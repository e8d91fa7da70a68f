#pragma once
// Random numbers whose every bit is specified here, so that a data order or an
// initial weight is the same on every machine and can be made again elsewhere.
// (The standard library's distributions are not specified.)

#include <array>
#include <cstdint>
#include <limits>

namespace osdn {

/// SplitMix64 (Steele, Lea, Flood 2014): state += 0x9e3779b97f4a7c15, then two
/// multiply-xorshift rounds. Turns any seed into well-mixed words.
class SplitMix64 {
 public:
  explicit constexpr SplitMix64(std::uint64_t seed) : state_(seed) {}

  constexpr std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

/// A seed for an independent stream: derive_seed(seed, epoch), or chained for
/// several numbers. The first SplitMix64 output for seed ^ (first SplitMix64
/// output for stream); different (seed, stream) give unrelated sequences.
constexpr std::uint64_t derive_seed(std::uint64_t seed, std::uint64_t stream) {
  return SplitMix64(seed ^ SplitMix64(stream).next()).next();
}

/// xoshiro256** 1.0 (Blackman, Vigna 2018), its four words filled by
/// SplitMix64(seed). Period 2^256 - 1.
class Xoshiro256 {
 public:
  using State = std::array<std::uint64_t, 4>;
  // Usable where the standard library wants a generator.
  using result_type = std::uint64_t;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() {
    return std::numeric_limits<result_type>::max();
  }
  result_type operator()() { return next(); }

  explicit Xoshiro256(std::uint64_t seed);
  /// Continues from state(); throws Error for the all-zero state, which would
  /// give zeros for ever.
  explicit Xoshiro256(const State& state);
  /// The whole state: restoring it continues the sequence exactly.
  const State& state() const { return state_; }

  std::uint64_t next();

  /// Uniform in [0, bound), without bias: words below 2^64 mod bound are drawn
  /// again, then the word modulo bound. Throws Error for bound 0.
  std::uint64_t below(std::uint64_t bound);

  /// Uniform in [0, 1): the upper 53 bits of a word times 2^-53.
  double uniform();

  /// Two independent N(0, 1) from two words (Box and Muller): with
  /// u = 1 - uniform() and v = uniform(), sqrt(-2 ln u) times cos and sin of
  /// 2 pi v, in double. Exact up to the last bit of the C library's functions.
  std::array<double, 2> normal_pair();

  /// The first of a normal_pair(); the other is dropped, so that the state is
  /// four words and nothing else.
  double normal() { return normal_pair()[0]; }

 private:
  State state_;
};

}  // namespace osdn
