// In-context recall on the six sets of JRT (Arora et al. 2024), each by the
// protocol that is asked for; numbers of two protocols are not comparable.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "generated_text.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/log.h"
#include "osdn/eval/jrt.h"
#include "osdn/eval/means.h"
#include "osdn/eval/python_text.h"
#include "osdn/eval/task_data.h"
#include "recall_protocol.h"
#include "recall_scores.h"

namespace osdn::eval {
namespace {

namespace fs = std::filesystem;

bool has_value(JrtSet set) {
  return set == JrtSet::kFda || set == JrtSet::kSwde || set == JrtSet::kSquad;
}

/// All that a set may have: nq has one for each length of its documents.
std::vector<std::string> file_names(const std::string& set) {
  if (set == "nq") {
    return {"jrt/nq_1024.jsonl", "jrt/nq_512.jsonl", "jrt/nq_2048.jsonl"};
  }
  std::vector<std::string> names{concat("jrt/", set, ".jsonl")};
  if (set == "squad") names.emplace_back("jrt/xquad_qa.jsonl");
  return names;
}

/// Those of them that --context-length leaves.
std::vector<std::string> file_names(const TaskContext& context, JrtSet set) {
  const std::int64_t length = context.options.context_length;
  if (set != JrtSet::kNq || length == EvalOptions{}.context_length) {
    return context.info.files;
  }
  const std::string wanted = concat("jrt/nq_", length, ".jsonl");
  for (const std::string& name : context.info.files) {
    if (name == wanted) return {name};
  }
  throw MissingData(concat("--context-length is ", length,
                           ", and nq has files for 512, 1024 and 2048 "
                           "tokens"),
                    ExitCode::kUsage);
}

JrtDocument read_document(JrtSet set, const Row& row) {
  JrtDocument d;
  d.place = row.place();
  if (has_value(set)) {
    d.text = row.text("text");
    d.value = row.text("value");
    if (set == JrtSet::kSquad) {
      d.context = row.text("context");
      d.question = row.text("question");
    } else {
      d.key = row.text("key");
    }
    return d;
  }
  d.context = row.text("context");
  d.question = row.text("question");
  d.orig_question = row.text("orig_question");
  d.answers = row.texts("answers");
  if (row.has("alt_answers")) d.alt_answers = row.texts("alt_answers");
  if (row.has("tok_pos")) d.tok_pos = row.number("tok_pos");
  return d;
}

PreparedTask prepare_protocol(const TaskContext& context, JrtSet set,
                              const RecallProtocol& protocol,
                              const fs::path& file) {
  PreparedTask task;
  if (file.filename().string().starts_with("xquad")) task.name = "xquad";
  task.protocol = protocol.name;
  const auto settings = recall_settings(protocol, set, context.options);
  if (!settings.is_null()) task.settings = settings.dump();
  task.batch = recall_batch(protocol, context.options);
  std::vector<std::vector<std::string>> labels;
  LeftOut left_out;
  std::string first_blank;
  std::int64_t blank = 0;
  for (const Row& row : task_rows(context, file, task)) {
    const JrtDocument document = read_document(set, row);
    std::optional<std::string> prompt =
        recall_prompt(protocol, set, context, document);
    if (!prompt) {
      left_out.add(row.place(), task);
      continue;
    }
    std::vector<std::string> own = jrt_labels(set, document);
    // A blank label would occur in every output.
    if (std::erase_if(own, [](const std::string& label) {
          return strip(label).empty();
        }) > 0) {
      if (++blank == 1) first_blank = row.place();
    }
    if (protocol.family == RecallProtocol::kUpstream && protocol.stripped) {
      for (std::string& label : own) label = std::string(strip(label));
    }
    task.no_label += own.empty() ? 1 : 0;
    task.batch.requests.push_back({.context = std::move(*prompt),
                                   .place = row.place(),
                                   .label = joined_labels(own)});
    labels.push_back(std::move(own));
  }
  left_out.warn(context.info.name, task);
  if (!first_blank.empty()) {
    log::warn(context.info.name, ", ", protocol.name,
              ": blank answers count for nothing: ", blank, " rows have some, ",
              task.no_label, " no other; the first: ", first_blank);
  }
  task.score = [labels = std::move(labels)](std::span<const Answer> answers) {
    const std::vector<double> hits = contains_scores(answers, labels);
    return Scores{{mean_metric("contains", hits)}, hits};
  };
  return task;
}

std::vector<PreparedTask> prepare(const TaskContext& context) {
  const JrtSet set = jrt_set_from_name(context.info.name.substr(4)).value();
  const fs::path file = task_file(context, file_names(context, set));
  std::vector<PreparedTask> all;
  for (const RecallProtocol& protocol : recall_protocols(context)) {
    all.push_back(prepare_protocol(context, set, protocol, file));
  }
  return all;
}

TaskDefinition task(const std::string& set, const std::string& fields,
                    const std::string& id, const std::string& files = "") {
  return {
      {concat("jrt_", set), "jrt", "contains: the answer is in the output",
       concat("--data: ", files.empty() ? set + ".jsonl" : files, " with ",
              fields),
       concat("load_dataset(\"hazyresearch/", id, "\", split=\"validation\")"),
       "contains", false,
       has_value(*jrt_set_from_name(set))
           ? protocol_names({RecallProtocol::kJrt, RecallProtocol::kUpstream,
                             RecallProtocol::kOsdnAuthors})
           : protocol_names({RecallProtocol::kJrt}),
       file_names(set)},
      prepare,
      [](const EvalOptions& options) {
        std::vector<std::string> names;
        add_recall_options(options, "jrt-once", names);
        return names;
      }};
}

}  // namespace

std::vector<TaskDefinition> jrt_tasks() {
  const std::string question = "context, question, orig_question, answers";
  return {task("fda", "text, key, value", "based-fda"),
          task("swde", "text, key, value", "based-swde-v2"),
          task("squad", "text, value, context, question", "based-squad"),
          task("nq", question, "based_nq_1024",
               "nq_1024.jsonl, nq_512.jsonl or nq_2048.jsonl"),
          task("triviaqa", question, "based_triviaqa"),
          task("drop", question, "based_drop")};
}

}  // namespace osdn::eval
