#pragma once
// A task of the evaluation suite: its documents become requests, and the
// answers become metrics. A new task is a file src/eval/task_<name>.cpp with a
// function <name>_tasks() and a line in src/eval/task_table.cpp.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "osdn/eval/options.h"
#include "osdn/eval/request.h"
#include "osdn/eval/request_hash.h"
#include "osdn/tokenizer/tokenizer.h"

namespace osdn::eval {

struct ModelSession;  // model_session.h

/// What --task list prints, and what messages about missing data say.
struct TaskInfo {
  std::string name{};
  std::string group{};     ///< "commonsense", "jrt", "niah", ...; may be empty
  std::string measures{};  ///< metrics, in words
  std::string needs{};     ///< what --data has to be; "nothing" if generated
  std::string source{};    ///< where a user gets that
  /// The metric that papers show, which enters a group's average; may be empty.
  std::string paper_metric{};
  bool reads_ids = false;  ///< and no text: no tokenizer is needed
  /// What --protocol may name, the default ones first; empty: there is one
  /// only.
  std::vector<std::string> protocols{};
  /// Names that its set may have, as task_file looks for them; empty: it reads
  /// any text, or nothing.
  std::vector<std::string> files{};
};

struct Metric {
  std::string name{};
  double value = 0;                        ///< accuracies: a fraction of 1
  std::optional<double> standard_error{};  ///< absent: none is defined
  std::int64_t n = 0;                      ///< what it is a mean over
  std::string detail{};                    ///< a JSON value, or empty
};

/// What a task makes of the answers to all of its requests.
struct Scores {
  std::vector<Metric> metrics{};
  /// Score of each request for --samples; empty: the requests have none.
  std::vector<double> rows{};
};

/// Requests of one task and protocol. All of it is known without a model.
struct PreparedTask {
  /// In results, where it is not the task's own: "hellaswag_2000".
  std::string name{};
  std::string protocol{};  ///< empty if the task has one only
  /// A JSON object of what else the answers depend on; empty for nothing.
  std::string settings{};
  std::string data{};  ///< names of the files, or what was generated
  /// hash_of_files() of every file that was read; empty without one.
  std::string data_hash{};
  bool limited = false;                 ///< --limit left documents out
  std::optional<std::uint64_t> seed{};  ///< absent: nothing is drawn
  /// Of the task's documents, where its rows are not those.
  std::optional<RequestHash> hash{};
  std::int64_t dropped = 0;   ///< documents left out
  std::int64_t no_label = 0;  ///< documents without a label
  RequestBatch batch{};
  /// Answers in the order of the requests. Pure: no model, no random numbers
  /// but those of a seed of its own.
  std::function<Scores(std::span<const Answer>)> score{};
  /// RequestKind::kMeasure: answers rows from the model itself.
  std::function<void(const ModelSession& session,
                     std::span<const std::size_t> rows, const AnswerDone& done)>
      measure{};
  std::size_t measured_together = 1;  ///< rows of one call of `measure`
  /// RequestKind::kMeasure: what the dummy model answers; absent: `measure`
  /// looks into a model, and there is none.
  std::function<Answer(std::size_t row)> dummy{};
  /// RequestKind::kMeasure: tokens of its passes, for the result; absent: none.
  std::optional<std::int64_t> max_len{};
};

/// What a task is prepared from.
struct TaskContext {
  const TaskInfo& info;
  const EvalOptions& options;
  std::optional<std::int64_t> max_len{};            ///< tokens; absent: not cut
  const tokenizer::Tokenizer* tokenizer = nullptr;  ///< null: none was given

  /// Throws Error (kUsage) naming the task where there is none.
  const tokenizer::Tokenizer& need_tokenizer() const;
  /// What --protocol names, else the first `usual` of the task's protocols.
  /// Throws Error (kUsage) naming task and protocols where it is none of them.
  std::vector<std::string> protocols(std::size_t usual) const;
};

/// Long names of the options that a task reads beside those of all tasks, the
/// others being as they are.
using OptionsRead = std::function<std::vector<std::string>(const EvalOptions&)>;

/// The same whatever the others are.
inline OptionsRead always(std::vector<std::string> names) {
  return [names = std::move(names)](const EvalOptions&) { return names; };
}

struct TaskDefinition {
  TaskInfo info{};
  /// One entry a protocol. Throws Error for data that is missing or not sound.
  std::function<std::vector<PreparedTask>(const TaskContext&)> prepare{};
  OptionsRead reads{};
};

}  // namespace osdn::eval
