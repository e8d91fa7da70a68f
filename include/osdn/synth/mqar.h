#pragma once
// Multi-query associative recall (Arora et al. 2023, "Zoology"), on integers: a
// context of keys and their values, then the keys again, spread out; at a
// queried key the model has to say the value.

#include <cstdint>
#include <vector>

namespace osdn::synth {

struct MqarOptions {
  std::int64_t vocab_size = 8192;  ///< ids are below it
  std::int64_t length = 64;        ///< L, even; a document has L - 1 tokens
  std::int64_t pairs = 4;          ///< D
  double power = 0.01;             ///< of the gaps: the nearer 0, the shorter
  bool random_non_queries = true;  ///< else 0 between the queries
  std::int64_t passes = 1;         ///< P: how often the context is read
};

/// Throws Error (kUsage) naming what does not fit: vocab_size > length, an even
/// length, 4D <= L, 2DP + 2D <= L, power in (0, 1].
void check(const MqarOptions& options);

struct MqarDocument {
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> labels;  ///< the value at a queried key, else -100
};

/// Document `index` of the stream "mqar": its keys are D different ids of
/// [1, V/2), its values of [V/2, V). Query j stands two times gap_j behind the
/// context, gaps being different and drawn with p(i) proportional to
/// (i + 1)^(power - 1). Its label is at the query's own position.
MqarDocument mqar_document(const MqarOptions& options, std::uint64_t seed,
                           std::uint64_t index);

}  // namespace osdn::synth
