// In-context recall on the six sets of JRT (Arora et al. 2024), each by the
// protocol that is asked for; numbers of two protocols are not comparable.

#include <algorithm>
#include <array>
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
#include "recall_scores.h"

namespace osdn::eval {
namespace {

namespace fs = std::filesystem;

struct Protocol {
  std::string_view name;
  enum { kJrt, kUpstream, kOsdnAuthors } family;
  bool twice = false;
  bool stripped = true;
};

constexpr std::array<Protocol, 6> kProtocols = {
    {{"jrt-once", Protocol::kJrt},
     {"jrt-twice", Protocol::kJrt, true},
     {"upstream", Protocol::kUpstream},
     {"upstream-v0", Protocol::kUpstream, false, false},
     {"osdn-authors-once", Protocol::kOsdnAuthors},
     {"osdn-authors-twice", Protocol::kOsdnAuthors, true}}};

bool has_value(JrtSet set) {
  return set == JrtSet::kFda || set == JrtSet::kSwde || set == JrtSet::kSquad;
}

/// Those that --protocol names, else the first two.
std::vector<Protocol> protocols_of(const TaskContext& context, JrtSet set) {
  const std::string& asked = context.options.protocol;
  if (asked.empty()) return {kProtocols[0], kProtocols[1]};
  std::string names;
  for (const Protocol& protocol : kProtocols) {
    names += concat(names.empty() ? "" : ", ", protocol.name);
    if (protocol.name != asked) continue;
    if (protocol.family != Protocol::kJrt && !has_value(set)) {
      throw Error(concat("protocol ", asked,
                         " is defined for jrt_fda, jrt_swde "
                         "and jrt_squad; use jrt-once or jrt-twice"),
                  ExitCode::kUsage);
    }
    return {protocol};
  }
  throw Error(concat("--protocol is '", asked, "'; expected one of ", names),
              ExitCode::kUsage);
}

std::vector<std::string> file_names(const TaskContext& context, JrtSet set) {
  const std::string name = context.info.name.substr(4);  // without "jrt_"
  std::vector<std::string> names;
  if (set == JrtSet::kNq) {
    // A file for each length of its documents.
    const std::int64_t length = context.options.context_length;
    for (const std::int64_t file : {1024, 512, 2048}) {
      if (length == file || length == 1000) {
        names.push_back(concat("jrt/nq_", file, ".jsonl"));
      }
    }
  } else {
    names.push_back(concat("jrt/", name, ".jsonl"));
  }
  if (set == JrtSet::kSquad) names.emplace_back("jrt/xquad_qa.jsonl");
  return names;
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

/// The cut of a task, in tokens.
std::int64_t desired_tokens(const EvalOptions& options, JrtSet set) {
  // The files of nq are as long as their names say; the fork leaves them whole.
  const std::int64_t length =
      set == JrtSet::kNq ? 2000 : options.context_length;
  if (options.answer_length < 0 || length - options.answer_length < 1) {
    throw Error(concat("--context-length ", length, " with --answer-length ",
                       options.answer_length,
                       " leaves no token for the text; expected more than "
                       "the answer's"),
                ExitCode::kUsage);
  }
  return length - options.answer_length;
}

/// Cuts the document and makes its prompt; nothing for one that is left out.
std::optional<std::string> prompt_of(const Protocol& protocol, JrtSet set,
                                     const TaskContext& context,
                                     JrtDocument& document) {
  if (protocol.family == Protocol::kUpstream) {
    return protocol.stripped ? std::string(strip(document.text))
                             : document.text;
  }
  const tokenizer::Tokenizer& tokenizer = context.need_tokenizer();
  const std::int64_t desired = desired_tokens(context.options, set);
  if (protocol.family == Protocol::kOsdnAuthors) {
    if (!cut_as_osdn_authors(set, protocol.twice, tokenizer, desired,
                             document)) {
      return std::nullopt;
    }
    return osdn_authors_prompt(set, protocol.twice, document);
  }
  if (!cut_around_answer(set, tokenizer, desired, document)) {
    return std::nullopt;
  }
  return jrt_prompt(set, protocol.twice, document);
}

GenerationRule rule_of(const Protocol& protocol, const EvalOptions& options) {
  GenerationRule rule{kRecallNewTokens, {"\n"}};
  if (protocol.family != Protocol::kOsdnAuthors) return rule;
  // Their script lets the tokenizer cut, which by default drops the end.
  rule.prompt_tokens = options.context_length + 64;
  if (options.trunc_side != "right" && options.trunc_side != "left") {
    throw Error(concat("--trunc-side is '", options.trunc_side,
                       "'; expected right or left"),
                ExitCode::kUsage);
  }
  rule.truncation =
      options.trunc_side == "right" ? Truncation::kRight : Truncation::kLeft;
  return rule;
}

std::string settings_of(const Protocol& protocol, JrtSet set,
                        const EvalOptions& options) {
  if (protocol.family == Protocol::kUpstream) return "";
  nlohmann::ordered_json settings = {
      {"cut_tokens", desired_tokens(options, set)}};
  if (protocol.family == Protocol::kOsdnAuthors) {
    settings["trunc_side"] = options.trunc_side;
  }
  return settings.dump();
}

PreparedTask prepare_protocol(const TaskContext& context, JrtSet set,
                              const Protocol& protocol, const fs::path& file) {
  PreparedTask task;
  describe_file(file, task);
  if (file.filename().string().starts_with("xquad")) task.name = "xquad";
  task.protocol = protocol.name;
  task.settings = settings_of(protocol, set, context.options);
  task.batch.kind = RequestKind::kGeneration;
  task.batch.generation = rule_of(protocol, context.options);
  task.batch.bos = protocol.family == Protocol::kOsdnAuthors;
  std::vector<std::vector<std::string>> labels;
  std::string first_dropped;
  std::string first_blank;
  for (const Row& row : read_rows(file, context.options.data.limit)) {
    JrtDocument document = read_document(set, row);
    std::optional<std::string> prompt =
        prompt_of(protocol, set, context, document);
    if (!prompt) {
      if (task.dropped++ == 0) first_dropped = row.place();
      continue;
    }
    std::vector<std::string> own = jrt_labels(set, document);
    // A blank label would occur in every output.
    if (std::erase_if(own,
                      [](const std::string& label) {
                        return strip(label).empty();
                      }) > 0 &&
        first_blank.empty()) {
      first_blank = row.place();
    }
    if (protocol.family == Protocol::kUpstream && protocol.stripped) {
      for (std::string& label : own) label = std::string(strip(label));
    }
    task.no_label += own.empty() ? 1 : 0;
    task.batch.requests.push_back({.context = std::move(*prompt),
                                   .place = row.place(),
                                   .label = joined_labels(own)});
    labels.push_back(std::move(own));
  }
  if (task.dropped > 0) {
    log::warn("jrt, ", protocol.name, ": ", task.dropped,
              " rows are left out, as their answer has at most one character; "
              "the first: ",
              first_dropped);
  }
  if (!first_blank.empty()) {
    log::warn("jrt, ", protocol.name, ": blank answers count for nothing, ",
              task.no_label, " rows have no other; the first: ", first_blank);
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
  for (const Protocol& protocol : protocols_of(context, set)) {
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
       "contains"},
      prepare};
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
