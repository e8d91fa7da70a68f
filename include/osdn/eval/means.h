#pragma once
// Means of documents' scores, with their standard errors (eval.md 1, 9).

#include <span>
#include <string>

#include "osdn/eval/task.h"

namespace osdn::eval {

/// Mean of values of 0 to 1 or 0 to 100; standard error: sample deviation
/// (n - 1) over sqrt n, none for a single value. Throws Error for no value.
Metric mean_metric(std::string name, std::span<const double> values);

/// exp(-mean of log-likelihoods), and its standard error by the delta method.
Metric perplexity_metric(std::string name, std::span<const double> values);

}  // namespace osdn::eval
