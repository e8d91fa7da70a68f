#pragma once
// The tasks that osdn-eval knows.

#include <filesystem>
#include <string>
#include <vector>

#include "osdn/eval/task.h"

namespace osdn::eval {

/// In the order of --task list.
const std::vector<TaskDefinition>& task_table();

/// Whether the file has the name of a task's set, "piqa.jsonl", also with .zst.
bool has_name_of_set(const std::filesystem::path& file);

struct SelectedTask {
  const TaskDefinition* definition = nullptr;
  std::string group{};         ///< by which it was asked for; empty: by name
  bool only_if_found = false;  ///< passed over where its data is not there
};

/// What the names of --task stand for: tasks, other names of tasks, groups.
/// Throws Error (kUsage) for no name at all, for a task asked for twice, and
/// for an unknown name, with the nearest known one.
std::vector<SelectedTask> select_tasks(const std::vector<std::string>& names);

/// What --task list prints.
std::string task_list();

/// " (needs ...; from ...)", for messages about missing data.
std::string data_hint(const TaskInfo& info);

}  // namespace osdn::eval
