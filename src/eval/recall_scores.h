#pragma once
// What JRT's sets and records share: short answers, looked for in the output.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "osdn/eval/request.h"

namespace osdn::eval {

constexpr std::int64_t kRecallNewTokens = 48;

/// 1 where one of the request's labels occurs in its output, else 0.
std::vector<double> contains_scores(
    std::span<const Answer> answers,
    const std::vector<std::vector<std::string>>& labels);

}  // namespace osdn::eval
