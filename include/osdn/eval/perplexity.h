#pragma once
// Perplexity of documents by words, bytes and tokens.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace osdn::eval {

/// A document with what its perplexities are counted by.
struct ScoredDocument {
  double log_likelihood = 0;  ///< natural log, over its scored tokens
  std::int64_t words = 0;
  std::int64_t bytes = 0;
  std::int64_t tokens = 0;  ///< scored; 0 by a model without tokens
};

inline constexpr std::uint64_t kBootstrapSeed = 1234;

struct PerplexityMetric {
  std::string name;
  double value = 0;
  std::optional<double> standard_error;  ///< absent for a single document
};

/// word_perplexity, byte_perplexity, bits_per_byte and token_perplexity of the
/// corpus: exp(-L / count). Standard errors are bootstrapped over documents,
/// 1,000 resamples from kBootstrapSeed. Without tokens there is no
/// token_perplexity. Throws Error when there is nothing to count.
std::vector<PerplexityMetric> perplexities(
    const std::vector<ScoredDocument>& documents);

}  // namespace osdn::eval
