#include "osdn/synth/mqar.h"

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/synth/draw.h"

namespace osdn::synth {
namespace {

constexpr std::int64_t kNoLabel = -100;

[[noreturn]] void refuse(const std::string& what) {
  throw Error("mqar: " + what, ExitCode::kUsage);
}

}  // namespace

void check(const MqarOptions& o) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (o.length < 4 || o.length % 2 != 0 || o.length > kMost) {
    refuse(concat("a length of ", o.length,
                  "; expected an even number from 4 on"));
  }
  if (o.vocab_size <= o.length || o.vocab_size > kMost) {
    refuse(concat("a vocabulary of ", o.vocab_size, " with a length of ",
                  o.length, "; expected more ids than tokens, at most 2^31"));
  }
  if (o.passes < 1 || o.passes > o.length) {
    refuse(concat(o.passes, " passes; expected at least 1"));
  }
  if (o.pairs < 1 || o.pairs > o.length / 4 ||
      2 * o.pairs * (o.passes + 1) > o.length) {
    refuse(concat(o.pairs, " pairs read ", o.passes,
                  " times do not fit a length of ", o.length, "; at most ",
                  o.length / (2 * o.passes + 2), " do"));
  }
  if (!(o.power > 0 && o.power <= 1)) {
    refuse(concat("a power of ", o.power, "; expected above 0, at most 1"));
  }
}

MqarDocument mqar_document(const MqarOptions& o, std::uint64_t seed,
                           std::uint64_t index) {
  check(o);
  Xoshiro256 random = document_stream(seed, "mqar", index);
  const auto pairs = static_cast<std::size_t>(o.pairs);
  const auto keys = draw_distinct(random, pairs, 1, o.vocab_size / 2);
  const auto values =
      draw_distinct(random, pairs, o.vocab_size / 2, o.vocab_size);
  const std::int64_t context = 2 * o.pairs * o.passes;
  const std::int64_t space = (o.length - context) / 2;
  std::vector<std::uint64_t> weights;
  for (std::int64_t i = 0; i < space; ++i) {
    weights.push_back(
        power_weight(static_cast<std::uint64_t>(i) + 1, o.power - 1));
  }
  const auto gaps = draw_weighted(random, pairs, std::move(weights));

  const auto length = static_cast<std::size_t>(o.length - 1);
  MqarDocument document{std::vector<std::int32_t>(length, 0),
                        std::vector<std::int64_t>(length, kNoLabel)};
  std::size_t at = 0;
  for (std::int64_t pass = 0; pass < o.passes; ++pass) {
    for (std::size_t j = 0; j < pairs; ++j) {
      document.tokens[at++] = static_cast<std::int32_t>(keys[j]);
      document.tokens[at++] = static_cast<std::int32_t>(values[j]);
    }
  }
  const std::size_t queries = at;
  for (std::size_t j = 0; j < pairs; ++j) {
    document.tokens[queries + 2 * gaps[j]] = static_cast<std::int32_t>(keys[j]);
    document.labels[queries + 2 * gaps[j]] = values[j];
  }
  if (o.random_non_queries) {
    for (std::size_t i = queries; i < length; ++i) {
      if (document.tokens[i] == 0) {
        document.tokens[i] = static_cast<std::int32_t>(
            random.below(static_cast<std::uint64_t>(o.vocab_size)));
      }
    }
  }
  return document;
}

}  // namespace osdn::synth
