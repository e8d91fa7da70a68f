#include "osdn/core/random.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "osdn/core/error.h"

namespace osdn {

Xoshiro256::Xoshiro256(std::uint64_t seed) {
  SplitMix64 mixer(seed);
  for (std::uint64_t& word : state_) {
    word = mixer.next();
  }
}

Xoshiro256::Xoshiro256(const State& state) : state_(state) {
  if (state == State{}) {
    throw Error(
        "a random state of four zeros is not valid: it gives zeros for ever");
  }
}

std::uint64_t Xoshiro256::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint64_t Xoshiro256::below(std::uint64_t bound) {
  if (bound == 0) {
    throw Error(
        "a random number below 0 was asked for; the bound must be "
        "at least 1");
  }
  const std::uint64_t rejected = (0 - bound) % bound;
  std::uint64_t word = next();
  while (word < rejected) {
    word = next();
  }
  return word % bound;
}

double Xoshiro256::uniform() {
  return static_cast<double>(next() >> 11) * 0x1.0p-53;
}

std::array<double, 2> Xoshiro256::normal_pair() {
  const double u = 1.0 - uniform();  // in (0, 1]: its logarithm is finite
  const double v = uniform();
  const double radius = std::sqrt(-2.0 * std::log(u));
  const double angle = 2.0 * std::numbers::pi * v;
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace osdn
