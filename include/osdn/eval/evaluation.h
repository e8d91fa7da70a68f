#pragma once
// One call of osdn-eval: which tasks, on what, and their results.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "osdn/core/error.h"
#include "osdn/eval/result.h"
#include "osdn/eval/text_data.h"

namespace osdn::eval {

/// Options of the program, as eval.md 12 names them.
struct EvalOptions {
  std::vector<std::string> tasks{};
  std::filesystem::path model{};                     ///< run or checkpoint
  std::optional<std::filesystem::path> tokenizer{};  ///< else the run's own
  DataOptions data{};                                ///< of all tasks
  std::string bos = "protocol";                      ///< "protocol", "0", "1"
  std::string rolling = "window";                    ///< "window", "full"
  std::string max_len{};        ///< number, "none"; empty: context length
  std::string device = "auto";  ///< "auto", "cpu", "cuda"
  std::string dtype = "auto";   ///< "auto", "fp32", "fp64", "bf16"
  std::int64_t batch_tokens = 8192;
  std::int64_t threads = 0;  ///< 0: all cores
};

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
