#include "osdn/eval/tasks.h"

#include <algorithm>
#include <set>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/nearest.h"

namespace osdn::eval {

const std::vector<TaskInfo>& known_tasks() {
  static const std::string text_files =
      "--data FILE or FOLDER: .txt or .jsonl, also .zst";
  static const std::vector<TaskInfo> tasks = {
      {"ppl", "word, byte and token perplexity", text_files, "any text"},
      {"wikitext", "the same of WikiText-2, as published numbers count it",
       "--data FILE or FOLDER: wikitext2_test.raw, or wikitext.jsonl with a "
       "page a line",
       "load_dataset(\"EleutherAI/wikitext_document_level\", "
       "\"wikitext-2-raw-v1\", split=\"test\").to_json(\"wikitext.jsonl\") in "
       "Python"},
      {"q_geo",
       "the share of a token's own squared error that its write leaves",
       text_files, "any text"},
  };
  return tasks;
}

void check_tasks(const std::vector<std::string>& tasks) {
  if (tasks.empty()) {
    throw Error("no task was asked for; osdn-eval --task list shows them",
                ExitCode::kUsage);
  }
  std::vector<std::string> names;
  for (const TaskInfo& task : known_tasks()) names.push_back(task.name);
  std::set<std::string> seen;
  for (const std::string& task : tasks) {
    if (std::find(names.begin(), names.end(), task) == names.end()) {
      const auto close = nearest(task, names);
      throw Error(concat("there is no task '", task, "'",
                         close ? concat("; did you mean '", *close, "'?") : "",
                         " (osdn-eval --task list shows all)"),
                  ExitCode::kUsage);
    }
    if (!seen.insert(task).second) {
      throw Error(concat("task '", task, "' is asked for twice"),
                  ExitCode::kUsage);
    }
  }
}

std::string task_list() {
  std::string text;
  for (const TaskInfo& task : known_tasks()) {
    text += concat(task.name, ": ", task.measures, "\n  needs ", task.needs,
                   "\n  from  ", task.source, "\n");
  }
  return text;
}

std::string data_hint(const std::string& task) {
  for (const TaskInfo& info : known_tasks()) {
    if (info.name == task) {
      return concat(" (needs ", info.needs, "; from ", info.source, ")");
    }
  }
  return "";
}

}  // namespace osdn::eval
