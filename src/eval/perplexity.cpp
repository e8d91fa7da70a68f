#include "osdn/eval/perplexity.h"

#include <cmath>
#include <functional>

#include "osdn/core/error.h"
#include "osdn/core/random.h"

namespace osdn::eval {
namespace {

constexpr int kResamples = 1000;

struct Totals {
  double log_likelihood = 0;
  double words = 0, bytes = 0, tokens = 0;

  void add(const ScoredDocument& d) {
    log_likelihood += d.log_likelihood;
    words += static_cast<double>(d.words);
    bytes += static_cast<double>(d.bytes);
    tokens += static_cast<double>(d.tokens);
  }
};

struct Metric {
  const char* name;
  std::function<double(const Totals&)> of;
};

const std::vector<Metric>& metrics() {
  static const std::vector<Metric> all = {
      {"word_perplexity",
       [](const Totals& t) { return std::exp(-t.log_likelihood / t.words); }},
      {"byte_perplexity",
       [](const Totals& t) { return std::exp(-t.log_likelihood / t.bytes); }},
      {"bits_per_byte",
       [](const Totals& t) {
         return -t.log_likelihood / (t.bytes * std::log(2.0));
       }},
      {"token_perplexity",
       [](const Totals& t) { return std::exp(-t.log_likelihood / t.tokens); }},
  };
  return all;
}

/// The totals of kResamples draws of as many documents, with replacement.
std::vector<Totals> resample(const std::vector<ScoredDocument>& documents) {
  Xoshiro256 random(kBootstrapSeed);
  std::vector<Totals> all(kResamples);
  for (Totals& totals : all) {
    for (std::size_t i = 0; i < documents.size(); ++i) {
      totals.add(documents[random.below(documents.size())]);
    }
  }
  return all;
}

double deviation(const std::vector<double>& values) {
  double mean = 0;
  for (const double v : values) mean += v;
  mean /= static_cast<double>(values.size());
  double sum = 0;
  for (const double v : values) sum += (v - mean) * (v - mean);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

}  // namespace

std::vector<PerplexityMetric> perplexities(
    const std::vector<ScoredDocument>& documents) {
  Totals totals;
  for (const ScoredDocument& d : documents) totals.add(d);
  const bool scored = totals.tokens > 0 || totals.log_likelihood != 0;
  if (!scored || totals.bytes <= 0 || totals.words <= 0) {
    throw Error("perplexity: the data hold no token to score",
                ExitCode::kBadInput);
  }
  const std::vector<Totals> draws =
      documents.size() > 1 ? resample(documents) : std::vector<Totals>{};
  std::vector<PerplexityMetric> results;
  for (const Metric& metric : metrics()) {
    // The dummy model scores texts, not tokens.
    const double value = metric.of(totals);
    if (!std::isfinite(value) && totals.tokens <= 0) continue;
    PerplexityMetric result{metric.name, value, std::nullopt};
    if (!draws.empty()) {
      std::vector<double> values;
      for (const Totals& draw : draws) values.push_back(metric.of(draw));
      result.standard_error = deviation(values);
    }
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace osdn::eval
