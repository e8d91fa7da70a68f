#pragma once
// What --samples writes.

#include <span>
#include <string>

#include "osdn/eval/task.h"

namespace osdn::eval {

/// A JSON object for each request: task, protocol, index, place, prompt_hash
/// (SHA-256 of the context or prompt, of a rolling document's text), tokens
/// (scored or generated), log_likelihood and greedy or output, label, score.
/// Nothing for a measure that has no score by request.
std::string sample_lines(const std::string& task, const PreparedTask& prepared,
                         std::span<const Answer> answers, const Scores& scores);

}  // namespace osdn::eval
