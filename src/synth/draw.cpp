#include "osdn/synth/draw.h"

#include <cmath>
#include <set>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/hash.h"

namespace osdn::synth {
namespace {

// The natural logarithm of 2.
constexpr double kLn2 = 0.693147180559945309417232121458;

/// ln x for x in [1, 2): 2 atanh((x - 1) / (x + 1)), whose argument is below
/// 1/3: 40 terms are exact to the last bits.
double log_of_mantissa(double x) {
  const double z = (x - 1) / (x + 1);
  double power = z;
  double sum = 0;
  for (int k = 0; k < 40; ++k) {
    sum += power / (2 * k + 1);
    power *= z * z;
  }
  return 2 * sum;
}

/// e^-x for x in [0, ln 2): its Taylor series.
double exp_of_minus(double x) {
  double term = 1;
  double sum = 1;
  for (int k = 1; k < 30; ++k) {
    term *= -x / k;
    sum += term;
  }
  return sum;
}

}  // namespace

Xoshiro256 document_stream(std::uint64_t seed, std::string_view task,
                           std::uint64_t index) {
  return Xoshiro256(derive_seed(derive_seed(seed, xxh3_64(task)), index));
}

std::int64_t draw_between(Xoshiro256& random, std::int64_t first,
                          std::int64_t last) {
  return first + static_cast<std::int64_t>(random.below(
                     static_cast<std::uint64_t>(last - first + 1)));
}

std::vector<std::int64_t> draw_distinct(Xoshiro256& random, std::size_t count,
                                        std::int64_t begin, std::int64_t end) {
  if (end < begin || count > static_cast<std::uint64_t>(end - begin)) {
    throw Error(concat(count, " different numbers of [", begin, ", ", end,
                       ") were asked for; there are not so many"));
  }
  std::vector<std::int64_t> drawn;
  std::set<std::int64_t> seen;
  while (drawn.size() < count) {
    const std::int64_t number = draw_between(random, begin, end - 1);
    if (seen.insert(number).second) drawn.push_back(number);
  }
  return drawn;
}

std::vector<std::size_t> draw_weighted(Xoshiro256& random, std::size_t count,
                                       std::vector<std::uint64_t> weights) {
  std::uint64_t left = 0;
  for (const std::uint64_t weight : weights) left += weight;
  std::vector<std::size_t> drawn;
  while (drawn.size() < count) {
    if (left == 0) {
      throw Error(concat(count, " of ", weights.size(),
                         " weighted items were asked for, only ", drawn.size(),
                         " have a weight above 0"));
    }
    std::uint64_t at = random.below(left);
    std::size_t i = 0;
    while (at >= weights[i]) at -= weights[i++];
    drawn.push_back(i);
    left -= std::exchange(weights[i], 0);
  }
  return drawn;
}

std::uint64_t power_weight(std::uint64_t n, double exponent) {
  int binary = 0;
  // frexp takes a number apart exactly; ldexp puts it together exactly.
  const double mantissa = std::frexp(static_cast<double>(n), &binary) * 2;
  const double log = log_of_mantissa(mantissa) + (binary - 1) * kLn2;
  const double minus = -exponent * log;
  const double halvings = std::floor(minus / kLn2);
  const double rest = std::max(0.0, minus - halvings * kLn2);
  return static_cast<std::uint64_t>(
      std::ldexp(exp_of_minus(rest), 32 - static_cast<int>(halvings)));
}

}  // namespace osdn::synth
