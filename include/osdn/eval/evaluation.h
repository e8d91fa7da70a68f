#pragma once
// One call of osdn-eval: which tasks, on what, and their results.

#include <string>
#include <vector>

#include "osdn/core/error.h"
#include "osdn/eval/options.h"
#include "osdn/eval/result.h"

namespace osdn::eval {

/// A task that could not run, and why.
struct TaskFailure {
  std::string task;
  std::string message;
  ExitCode code;
};

struct Evaluation {
  std::string device{};
  std::vector<Result> results{};
  std::vector<TaskFailure> failures{};
  /// JSON Lines, one a scored document: task, index, prompt_hash (SHA-256 of
  /// the text), tokens, words, bytes, log_likelihood.
  std::string samples{};
};

/// Runs the tasks in the order given. What is wrong with the options, the model
/// or the tokenizer is thrown as Error before anything is scored; what is wrong
/// with one task's data is among the failures and stops that task alone.
Evaluation evaluate(const EvalOptions& options);

}  // namespace osdn::eval
