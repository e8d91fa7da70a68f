#include "osdn/eval/means.h"

#include <cmath>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::eval {

Metric mean_metric(std::string name, std::span<const double> values) {
  if (values.empty()) {
    throw Error(concat(name, ": there is no document to take a mean of"),
                ExitCode::kBadInput);
  }
  Metric metric;
  metric.name = std::move(name);
  metric.n = std::ssize(values);
  const auto n = static_cast<double>(values.size());
  for (const double value : values) metric.value += value;
  metric.value /= n;
  if (values.size() > 1) {
    double squares = 0;
    for (const double value : values) {
      squares += (value - metric.value) * (value - metric.value);
    }
    metric.standard_error = std::sqrt(squares / (n - 1) / n);
  }
  return metric;
}

Metric perplexity_metric(std::string name, std::span<const double> values) {
  Metric metric = mean_metric(std::move(name), values);
  metric.value = std::exp(-metric.value);
  if (metric.standard_error) *metric.standard_error *= metric.value;
  return metric;
}

}  // namespace osdn::eval
