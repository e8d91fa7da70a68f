#pragma once
// Multiple-choice tasks (eval.md 4): each choice is a continuation, a space in
// front of it, and the most likely one is the answer.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "osdn/eval/task.h"
#include "osdn/eval/task_data.h"

namespace osdn::eval {

struct ChoiceDocument {
  std::vector<std::string> contexts{};  ///< one, or one for each choice
  std::vector<std::string> choices{};   ///< without the space; not stripped
  std::size_t gold = 0;                 ///< index of the right one
};

/// What tells one multiple-choice task from another.
struct ChoiceTask {
  TaskInfo info{};
  std::vector<std::string> files{};  ///< names that task_file looks for
  /// A row of any layout that the task knows. Throws Row::error for another.
  std::function<ChoiceDocument(const Row&)> document{};
  bool by_length = true;  ///< also acc_norm and acc_bytes
  /// Name of the results where the rows are not the published ones; given the
  /// first row.
  std::function<std::string(const Row&)> name{};
};

/// Metrics: acc, the largest sum of log-likelihoods; acc_norm, the largest sum
/// over the code points of the choice; acc_bytes, over its UTF-8 bytes. Of
/// equals the first wins. A choice without a character is named in a warning,
/// counted in `no_label`, and never wins by length.
TaskDefinition choice_task(ChoiceTask task);

}  // namespace osdn::eval
