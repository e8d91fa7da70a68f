#pragma once
// The tasks that osdn-eval knows.

#include <string>
#include <vector>

namespace osdn::eval {

struct TaskInfo {
  std::string name;
  std::string measures;
  std::string needs;   ///< what --data has to be
  std::string source;  ///< where a user gets that
};

const std::vector<TaskInfo>& known_tasks();

/// Throws Error (kUsage) for no task at all, for one given twice, and for an
/// unknown one, naming the nearest.
void check_tasks(const std::vector<std::string>& tasks);

/// What --task list prints.
std::string task_list();

/// " (needs ...; from ...)" of a known task, for messages about missing data.
std::string data_hint(const std::string& task);

}  // namespace osdn::eval
