#include "task_options.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>

#include "in_words.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::eval {
namespace {

/// Of every task, or of the call.
constexpr std::array<std::string_view, 14> kOfAllTasks = {
    "--task",    "--model", "--data",         "--tokenizer",    "--device",
    "--dtype",   "--limit", "--batch-tokens", "--threads",      "--answers",
    "--samples", "--out",   "--csv",          "--hash-requests"};

template <typename Names>
bool holds(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_protocol(const std::vector<SelectedTask>& tasks,
                    const std::string& asked) {
  if (asked.empty()) return;
  // Tasks, by their protocols.
  std::map<std::string, std::vector<std::string>> takers;
  for (const SelectedTask& task : tasks) {
    const TaskInfo& info = task.definition->info;
    if (holds(info.protocols, asked)) return;
    if (info.protocols.empty()) continue;
    takers[in_words(info.protocols)].push_back(info.name);
  }
  std::string what;
  for (const auto& [protocols, names] : takers) {
    what += concat("; expected one of ", protocols, " for ", in_words(names));
  }
  throw Error(concat("--protocol is '", asked, "'",
                     what.empty() ? "; none of the tasks has protocols (jrt, "
                                    "records and longbench have)"
                                  : what),
              ExitCode::kUsage);
}

}  // namespace

void check_task_options(const std::vector<SelectedTask>& tasks,
                        const EvalOptions& options) {
  check_protocol(tasks, options.protocol);
  for (const std::string& name : options.given) {
    if (holds(kOfAllTasks, name)) continue;
    const bool read =
        std::any_of(tasks.begin(), tasks.end(), [&](const SelectedTask& task) {
          return holds(task.definition->reads(options), name);
        });
    if (read) continue;
    std::vector<std::string> asked;
    for (const SelectedTask& task : tasks) {
      asked.push_back(task.definition->info.name);
    }
    throw Error(concat(name, " has no effect on ", in_words(asked),
                       " with the other options as they are; leave it out"),
                ExitCode::kUsage);
  }
}

}  // namespace osdn::eval
