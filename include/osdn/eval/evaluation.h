#pragma once
// One call of osdn-eval: which tasks, on what, and their results.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "osdn/eval/result.h"

namespace osdn::eval {

/// Options of the program, as eval.md 12 names them.
struct EvalOptions {
  std::vector<std::string> tasks;
  std::filesystem::path model;                     ///< run or checkpoint folder
  std::optional<std::filesystem::path> tokenizer;  ///< else the run's own
  std::vector<std::filesystem::path> data;
  std::string split = "file";    ///< of .txt files
  std::string field = "text";    ///< of .jsonl files
  std::string bos = "protocol";  ///< "protocol", "0", "1"
  std::string max_len;           ///< number, "none", else context
  std::string dtype = "fp32";    ///< "fp32", "fp64"
  std::int64_t batch_tokens = 8192;
  std::int64_t threads = 0;                      ///< 0: all cores
  std::optional<std::int64_t> limit;             ///< documents
  std::optional<std::filesystem::path> samples;  ///< a line a document
};

/// One task that osdn-eval knows.
struct TaskInfo {
  const char* name;
  const char* needs;  ///< what it reads
  const char* measures;
};
const std::vector<TaskInfo>& known_tasks();

/// Checks everything, then runs the tasks in the order given. Throws Error.
std::vector<Result> evaluate(const EvalOptions& options);

}  // namespace osdn::eval
