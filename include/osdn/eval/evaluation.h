#pragma once
// One call of osdn-eval: which tasks, on what, and their results.

#include <string>
#include <vector>

#include "osdn/core/error.h"
#include "osdn/eval/options.h"
#include "osdn/eval/ranks.h"
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
  /// JSON Lines, one a request: task, protocol, index, prompt_hash (SHA-256 of
  /// the context, the prompt or the rolling document), place, tokens,
  /// log_likelihood and greedy or output, label, score.
  std::string samples{};
  /// Nothing but answers of this call was in the files of EvalOptions::answers.
  bool answers_spent = true;
};

/// Runs the tasks in the order given. What is wrong with the options, the model
/// or the tokenizer is thrown as Error before anything is scored; what is wrong
/// with one task's data is among the failures and stops that task alone. With
/// several ranks each calls this with the same options, and each has the whole
/// evaluation in the end.
Evaluation evaluate(const EvalOptions& options, const Ranks& ranks = {});

/// A line for each task and protocol: task, protocol, number of requests,
/// SHA-256 of them (RequestHash); and the tasks whose data cannot be read. No
/// weights are needed, and a tokenizer by few tasks.
struct RequestHashes {
  std::string table{};
  std::vector<TaskFailure> failures{};
};
RequestHashes request_hashes(const EvalOptions& options);

}  // namespace osdn::eval
