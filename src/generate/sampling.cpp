#include "osdn/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/random.h"

namespace osdn::generate {
namespace {

[[noreturn]] void out_of_range(const char* option, double value,
                               const char* expected) {
  throw Error(concat(option, " is ", value, "; expected ", expected),
              ExitCode::kUsage);
}

bool more_probable(const Candidate& a, const Candidate& b) {
  return a.probability != b.probability ? a.probability > b.probability
                                        : a.id < b.id;
}

/// By id, with the sum 1.
std::vector<Candidate> normalised(std::vector<Candidate> kept) {
  std::sort(kept.begin(), kept.end(),
            [](const Candidate& a, const Candidate& b) { return a.id < b.id; });
  double sum = 0;
  for (const Candidate& c : kept) sum += c.probability;
  for (Candidate& c : kept) c.probability /= sum;
  return kept;
}

void check_logits(std::span<const double> logits) {
  bool any = false;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) ||
        logits[i] == std::numeric_limits<double>::infinity()) {
      throw Error(concat("the model's logit of id ", i, " is ", logits[i],
                         "; nothing can be chosen from that"));
    }
    any = any || std::isfinite(logits[i]);
  }
  if (!any) throw Error("no logit is finite; nothing can be chosen");
}

}  // namespace

void check_sampling(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    out_of_range("--temperature", options.temperature,
                 "0 (greedy) or a number above it");
  }
  if (options.top_k < 0) {
    out_of_range("--top-k", static_cast<double>(options.top_k),
                 "0 (no limit) or a count");
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    out_of_range("--top-p", options.top_p, "above 0 and at most 1");
  }
  if (!(options.repetition_penalty > 0) ||
      !std::isfinite(options.repetition_penalty)) {
    out_of_range("--repetition-penalty", options.repetition_penalty,
                 "above 0; 1 is none");
  }
}

void penalise_repetition(std::span<double> logits,
                         std::span<const std::int32_t> seen, double penalty) {
  if (penalty == 1) return;
  for (const std::int32_t id : seen) {
    if (id < 0 || static_cast<std::size_t>(id) >= logits.size()) {
      throw Error(concat("id ", id, " is outside the ", logits.size(),
                         " logits of the model"));
    }
    double& logit = logits[static_cast<std::size_t>(id)];
    logit = logit > 0 ? logit / penalty : logit * penalty;
  }
}

void apply_temperature(std::span<double> logits, double temperature) {
  for (double& logit : logits) logit /= temperature;
}

std::vector<Candidate> candidates(std::span<const double> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<Candidate> all;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double weight = std::exp(logits[i] - largest);
    if (weight > 0) all.push_back({static_cast<std::int32_t>(i), weight});
  }
  return normalised(std::move(all));
}

std::vector<Candidate> keep_top_k(std::vector<Candidate> all, std::int64_t k) {
  if (k == 0 || static_cast<std::size_t>(k) >= all.size()) return all;
  std::nth_element(all.begin(), all.begin() + (k - 1), all.end(),
                   more_probable);
  all.resize(static_cast<std::size_t>(k));
  return normalised(std::move(all));
}

std::vector<Candidate> keep_top_p(std::vector<Candidate> all, double p) {
  if (p >= 1) return all;
  std::sort(all.begin(), all.end(), more_probable);
  double sum = 0;
  std::size_t kept = 0;
  while (kept < all.size() && sum < p) sum += all[kept++].probability;
  all.resize(kept);
  return normalised(std::move(all));
}

std::int32_t draw(std::span<const Candidate> all, double uniform) {
  double sum = 0;
  for (const Candidate& c : all) {
    sum += c.probability;
    if (uniform < sum) return c.id;
  }
  return all.back().id;  // the probabilities' sum was rounded below 1
}

double uniform_at(std::uint64_t seed, std::uint64_t index,
                  std::uint64_t position) {
  const std::uint64_t word = derive_seed(derive_seed(seed, index), position);
  return static_cast<double>(word >> 11) * 0x1.0p-53;
}

std::int32_t next_token(std::vector<double> logits,
                        std::span<const std::int32_t> seen,
                        const SamplingOptions& options, std::uint64_t index,
                        std::uint64_t position) {
  check_logits(logits);
  penalise_repetition(logits, seen, options.repetition_penalty);
  if (options.temperature == 0) {
    return static_cast<std::int32_t>(
        std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  apply_temperature(logits, options.temperature);
  const std::vector<Candidate> kept =
      keep_top_p(keep_top_k(candidates(logits), options.top_k), options.top_p);
  return draw(kept, uniform_at(options.seed, index, position));
}

}  // namespace osdn::generate
