#pragma once
// The answers to all requests of a task, from the log or from a model, alone or
// by several ranks.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "osdn/eval/answer_log.h"
#include "osdn/eval/ranks.h"
#include "osdn/eval/request.h"

namespace osdn::eval {

struct Collection {
  std::string label{};  ///< of the progress line
  std::string key{};    ///< in the log: what the answers depend on
  const RequestBatch* batch = nullptr;
};

/// Answers in the order of the requests, the same on all ranks. A pack with an
/// answer that is not in the log is run whole. Throws Error, on all ranks when
/// one of them fails, naming the place of a request whose log-likelihood is
/// not finite.
std::vector<Answer> collect_answers(
    const Collection& what,
    const std::function<std::unique_ptr<BatchRun>()>& begin, AnswerLog& log,
    const Ranks& ranks);

}  // namespace osdn::eval
