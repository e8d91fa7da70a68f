#pragma once
// How the next token is chosen from its logits. The steps and their order are
// those of the transformers library: repetition penalty, temperature, top-k,
// top-p, then a draw. All of it is computed in float64 and is a pure function.

#include <cstdint>
#include <span>
#include <vector>

namespace osdn::generate {

struct SamplingOptions {
  double temperature = 0;         ///< 0: greedy, the first largest logit
  std::int64_t top_k = 0;         ///< 0: no limit
  double top_p = 1;               ///< 1: no limit
  double repetition_penalty = 1;  ///< 1: none
  std::uint64_t seed = 0;
  bool operator==(const SamplingOptions&) const = default;
};

/// Throws Error (kUsage) naming the first option that is out of range.
void check_sampling(const SamplingOptions& options);

/// Logits of ids that were seen are divided by the penalty where they are
/// positive and multiplied by it elsewhere (Keskar et al. 2019, CTRL). Every id
/// of `seen` counts once; ids past the logits are an Error.
void penalise_repetition(std::span<double> logits,
                         std::span<const std::int32_t> seen, double penalty);

/// Logits divided by a temperature above 0.
void apply_temperature(std::span<double> logits, double temperature);

struct Candidate {
  std::int32_t id = 0;
  double probability = 0;
  bool operator==(const Candidate&) const = default;
};

/// Softmax: the ids whose probability is above 0, rising. An id whose logit is
/// minus infinity is no candidate.
std::vector<Candidate> candidates(std::span<const double> logits);

/// The k most probable, of equal ones those with the smaller ids, scaled to
/// the sum 1; by id. k = 0 keeps all.
std::vector<Candidate> keep_top_k(std::vector<Candidate> all, std::int64_t k);

/// The most probable ones up to the first whose sum reaches p of the whole, so
/// at least one; of equal ones the smaller ids come first. Scaled to the sum 1;
/// by id. p = 1 keeps all.
std::vector<Candidate> keep_top_p(std::vector<Candidate> all, double p);

/// The candidate in which the running sum, by id, passes `uniform` in [0, 1).
std::int32_t draw(std::span<const Candidate> all, double uniform);

/// Uniform in [0, 1): word `position` of the stream of prompt `index`. A
/// counter-based stream: no draw depends on how many others there were.
double uniform_at(std::uint64_t seed, std::uint64_t index,
                  std::uint64_t position);

/// All of the above in order. Logits may hold minus infinity, but neither NaN
/// nor plus infinity; those are an Error.
std::int32_t next_token(std::vector<double> logits,
                        std::span<const std::int32_t> seen,
                        const SamplingOptions& options, std::uint64_t index,
                        std::uint64_t position);

}  // namespace osdn::generate
