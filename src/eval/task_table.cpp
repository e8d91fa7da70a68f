#include "osdn/eval/task_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "in_words.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/nearest.h"

// One line a file task_<name>.cpp, which defines <name>_tasks().
#define OSDN_TASK_FILES(line)                                                  \
  line(ppl) line(wikitext) line(lambada) line(piqa) line(hellaswag)            \
      line(winogrande) line(arc) line(openbookqa) line(boolq) line(social_iqa) \
          line(sciq) line(longppl) line(q_geo) line(jrt) line(longbench)       \
              line(niah) line(records) line(mqar)

namespace osdn::eval {

#define OSDN_DECLARE(name) std::vector<TaskDefinition> name##_tasks();
OSDN_TASK_FILES(OSDN_DECLARE)
#undef OSDN_DECLARE

namespace {

using Alias = std::pair<std::string_view, std::string_view>;
constexpr std::array<Alias, 2> kAliases = {
    {{"lambada", "lambada_openai"}, {"siqa", "social_iqa"}}};

/// Groups that run the tasks whose data is there, and pass over the others.
constexpr std::array<std::string_view, 1> kGroupsOfWhatIsFound = {"jrt"};

std::vector<TaskDefinition> make_table() {
  std::vector<TaskDefinition> all;
#define OSDN_ADD(name) \
  for (TaskDefinition & task : name##_tasks()) all.push_back(std::move(task));
  OSDN_TASK_FILES(OSDN_ADD)
#undef OSDN_ADD
  return all;
}

std::string without_alias(const std::string& name) {
  for (const auto& [alias, meant] : kAliases) {
    if (name == alias) return std::string(meant);
  }
  return name;
}

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const TaskDefinition& task : task_table()) {
    names.push_back(task.info.name);
    if (!task.info.group.empty()) names.push_back(task.info.group);
  }
  for (const auto& [alias, meant] : kAliases) names.emplace_back(alias);
  return names;
}

/// The tasks that a name stands for.
std::vector<SelectedTask> meaning_of(const std::string& name) {
  std::vector<SelectedTask> tasks;
  for (const TaskDefinition& task : task_table()) {
    if (task.info.name == without_alias(name)) return {{&task, "", false}};
    if (task.info.group == name) {
      const bool optional =
          std::find(kGroupsOfWhatIsFound.begin(), kGroupsOfWhatIsFound.end(),
                    name) != kGroupsOfWhatIsFound.end();
      tasks.push_back({&task, name, optional});
    }
  }
  if (!tasks.empty()) return tasks;
  const auto close = nearest(name, all_names());
  throw Error(concat("there is no task '", name, "'",
                     close ? concat("; did you mean '", *close, "'?") : "",
                     " (osdn-eval --task list shows all)"),
              ExitCode::kUsage);
}

}  // namespace

const std::vector<TaskDefinition>& task_table() {
  static const std::vector<TaskDefinition> table = make_table();
  return table;
}

bool has_name_of_set(const std::filesystem::path& file) {
  static const std::set<std::string> names = [] {
    std::set<std::string> all;
    for (const TaskDefinition& task : task_table()) {
      for (const std::string& name : task.info.files) {
        all.insert(std::filesystem::path(name).filename().string());
      }
    }
    return all;
  }();
  return names.contains(
      (file.extension() == ".zst" ? file.stem() : file.filename()).string());
}

std::vector<SelectedTask> select_tasks(const std::vector<std::string>& names) {
  if (names.empty()) {
    throw Error("no task was asked for; osdn-eval --task list shows them",
                ExitCode::kUsage);
  }
  std::vector<SelectedTask> selected;
  std::set<std::string> seen;
  for (const std::string& name : names) {
    for (const SelectedTask& task : meaning_of(name)) {
      if (!seen.insert(task.definition->info.name).second) {
        throw Error(concat("task '", task.definition->info.name,
                           "' is asked for twice"),
                    ExitCode::kUsage);
      }
      selected.push_back(task);
    }
  }
  return selected;
}

std::string task_list() {
  std::string text;
  std::map<std::string, std::string> groups;
  for (const TaskDefinition& task : task_table()) {
    const TaskInfo& info = task.info;
    if (!info.group.empty()) {
      std::string& names = groups[info.group];
      names += concat(names.empty() ? "" : ", ", info.name);
    }
    text +=
        concat(info.name, ": ", info.measures,
               info.group.empty() ? "" : concat(" (group ", info.group, ")"),
               "\n  needs ", info.needs, "\n",
               info.source.empty() ? "" : concat("  from  ", info.source, "\n"),
               info.protocols.empty()
                   ? ""
                   : concat("  --protocol ", in_words(info.protocols), "\n"));
  }
  for (const auto& [group, names] : groups) {
    text += concat(group, ": the group of ", names, "\n");
  }
  for (const auto& [alias, meant] : kAliases) {
    text += concat(alias, ": another name of ", meant, "\n");
  }
  return text;
}

std::string data_hint(const TaskInfo& info) {
  return concat(" (needs ", info.needs,
                info.source.empty() ? "" : concat("; from ", info.source), ")");
}

}  // namespace osdn::eval
