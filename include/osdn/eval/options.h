#pragma once
// The options of osdn-eval, as eval.md 12 names them.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "osdn/eval/text_data.h"

namespace osdn::eval {

/// Of the tasks whose data is generated.
struct GeneratedTaskOptions {
  std::optional<std::int64_t> documents{};       ///< else the task's own number
  std::optional<std::filesystem::path> words{};  ///< else built-in
  std::optional<std::filesystem::path> haystack{};  ///< else generated
  std::vector<std::int64_t> target_tokens{2048, 4096, 8192};  ///< niah
  std::string mode = "unique";                                ///< records
  std::int64_t record_tokens = 900;       ///< records: most of a document
  std::vector<std::int64_t> records{};    ///< records: a document's lines
  std::int64_t repeat = 3;                ///< records: same and update
  std::vector<std::string> mqar_sizes{};  ///< "L:D"; empty: the usual ones
  std::int64_t mqar_vocab = 8192;
  std::int64_t mqar_passes = 1;
};

struct EvalOptions {
  std::vector<std::string> tasks{};  ///< tasks and groups
  std::filesystem::path model{};     ///< run or checkpoint; "dummy": none
  std::optional<std::filesystem::path> tokenizer{};  ///< else the run's own
  DataOptions data{};                                ///< of all tasks
  /// Which of a task's protocols; empty: its default ones.
  std::string protocol{};
  std::string bos = "protocol";    ///< "protocol", "0", "1"
  std::string rolling = "window";  ///< "window", "full"
  std::string max_len{};           ///< number, "none"; empty: context length
  std::optional<std::uint64_t> seed{};  ///< of tasks that draw; else their own
  std::int64_t shots = 0;               ///< solved examples before a context
  std::optional<std::filesystem::path> shots_file{};
  std::int64_t context_length = 1000;  ///< of JRT's cut, in tokens
  std::int64_t answer_length = 50;     ///< what the cut leaves free
  std::string trunc_side = "right";    ///< osdn-authors: "right", "left"
  GeneratedTaskOptions generated{};
  std::string parity{};  ///< "fla": longppl as that project's script does it
  bool per_doc = false;  ///< longppl: the first block of each document
  std::string device = "auto";  ///< "auto", "cpu", "cuda"
  std::string dtype = "auto";   ///< "auto", "fp32", "fp64", "bf16"
  std::int64_t batch_tokens = 8192;
  std::int64_t threads = 0;  ///< 0: all cores
  /// Answers are written here as they come, and those of an interrupted call
  /// of the same configuration are taken from here.
  std::optional<std::filesystem::path> answers{};
  /// Long names of the options that the user gave: each has to be read by one
  /// of the tasks.
  std::vector<std::string> given{};
};

/// "dummy": no checkpoint, no computation.
inline bool is_dummy(const EvalOptions& options) {
  return options.model == "dummy";
}

}  // namespace osdn::eval
