// LongBench (Bai et al. 2023): the 16 English and code subsets. Templates and
// generation lengths are read from the project's own two files, beside the
// data.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "generated_text.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/json_text.h"
#include "osdn/core/path.h"
#include "osdn/eval/longbench_metrics.h"
#include "osdn/eval/means.h"
#include "osdn/eval/python_text.h"
#include "osdn/eval/task_data.h"

namespace osdn::eval {
namespace {

namespace fs = std::filesystem;

enum class LongMetric {
  kQaF1,
  kRougeL,
  kClassification,
  kCount,
  kRetrieval,
  kCodeSimilarity
};

struct Subset {
  std::string_view name;
  LongMetric metric;
  bool first_line = false;  ///< only that of the output counts
};

constexpr std::array<Subset, 16> kSubsets = {{
    {"narrativeqa", LongMetric::kQaF1},
    {"qasper", LongMetric::kQaF1},
    {"multifieldqa_en", LongMetric::kQaF1},
    {"hotpotqa", LongMetric::kQaF1},
    {"2wikimqa", LongMetric::kQaF1},
    {"musique", LongMetric::kQaF1},
    {"gov_report", LongMetric::kRougeL},
    {"qmsum", LongMetric::kRougeL},
    {"multi_news", LongMetric::kRougeL},
    {"trec", LongMetric::kClassification, true},
    {"triviaqa", LongMetric::kQaF1, true},
    {"samsum", LongMetric::kRougeL, true},
    {"passage_count", LongMetric::kCount},
    {"passage_retrieval_en", LongMetric::kRetrieval},
    {"lcc", LongMetric::kCodeSimilarity},
    {"repobench-p", LongMetric::kCodeSimilarity},
}};

constexpr std::array<std::string_view, 5> kChinese = {
    "multifieldqa_zh", "dureader", "vcsum", "lsht", "passage_retrieval_zh"};

constexpr const char* kMetricNames[] = {"qa_f1", "rouge_l",   "classification",
                                        "count", "retrieval", "code_sim"};

std::string metric_name(LongMetric metric) {
  return kMetricNames[static_cast<std::size_t>(metric)];
}

const Subset& subset_of(const TaskContext& context) {
  const std::string name =
      context.info.name.substr(std::string_view("longbench_").size());
  return *std::find_if(kSubsets.begin(), kSubsets.end(),
                       [&](const Subset& s) { return s.name == name; });
}

/// The value of a subset in one of the two files, which is added to `files`.
nlohmann::json value_in(const TaskContext& context, const std::string& name,
                        const std::string& subset,
                        std::vector<fs::path>& files) {
  const fs::path beside = files.front();
  fs::path file;
  for (const char* prefix : {"longbench_", ""}) {
    const fs::path candidate = beside.parent_path() / concat(prefix, name);
    if (is_there(candidate)) file = candidate;
  }
  if (file.empty()) {
    file = task_file(context, {concat("eval/longbench/longbench_", name),
                               concat("longbench/", name)});
  }
  if (file == beside) {
    throw MissingData(concat("looked for ", name, " beside ", beside.string(),
                             "; it is not there"),
                      ExitCode::kBadInput);
  }
  files.push_back(file);
  std::vector<RepeatedKey> repeated;
  nlohmann::json all;
  try {
    all = parse_json(read_file(file), repeated);
  } catch (const nlohmann::json::exception&) {  // said below
  }
  if (!all.is_object() || !all.contains(subset) || !repeated.empty()) {
    throw Error(concat(file.string(), ": expected a JSON object with \"",
                       subset, "\", each of its keys once"),
                ExitCode::kBadInput);
  }
  return all.at(subset);
}

/// {context} and {input} of the template; what is put in is not looked at.
std::string filled_in(std::string_view form, const std::string& context,
                      const std::string& input) {
  std::string out;
  while (!form.empty()) {
    const std::size_t open = form.find('{');
    out += form.substr(0, open);
    if (open == std::string_view::npos) break;
    form.remove_prefix(open);
    if (form.starts_with("{context}")) {
      out += context;
      form.remove_prefix(9);
    } else if (form.starts_with("{input}")) {
      out += input;
      form.remove_prefix(7);
    } else {
      out += '{';
      form.remove_prefix(1);
    }
  }
  return out;
}

struct Gold {
  std::vector<std::string> answers;
  std::vector<std::string> classes;
};

double score_against(LongMetric metric, std::string_view output,
                     const std::string& answer,
                     const std::vector<std::string>& classes) {
  switch (metric) {
    case LongMetric::kQaF1:
      return qa_f1(output, answer);
    case LongMetric::kRougeL:
      return rouge_l(output, answer);
    case LongMetric::kClassification:
      return classification_score(output, answer, classes);
    case LongMetric::kCount:
      return count_score(output, answer);
    case LongMetric::kRetrieval:
      return retrieval_score(output, answer);
    case LongMetric::kCodeSimilarity:
      break;
  }
  return code_similarity(output, answer);
}

/// The best over all answers.
double document_score(const Subset& subset, std::string_view output,
                      const Gold& gold) {
  std::string first;
  if (subset.first_line) {
    const std::size_t begin = output.find_first_not_of('\n');
    output.remove_prefix(std::min(begin, output.size()));
    output = output.substr(0, output.find('\n'));
  }
  double best = 0;
  for (const std::string& answer : gold.answers) {
    best = std::max(best,
                    score_against(subset.metric, output, answer, gold.classes));
  }
  return best;
}

Truncation truncation_of(const TaskContext& context) {
  return context.protocols(1).front() == "left" ? Truncation::kLeft
                                                : Truncation::kMiddle;
}

GenerationRule rule_of(const TaskContext& context, const Subset& subset,
                       std::int64_t new_tokens) {
  GenerationRule rule;
  rule.max_new_tokens = new_tokens;
  if (subset.name == "samsum") {
    rule.stops = {"\n"};
    rule.tokens_before_stop = 1;
  }
  rule.truncation = truncation_of(context);
  rule.prompt_tokens = context.max_len;
  return rule;
}

Gold gold_of(const Subset& subset, const Row& row) {
  Gold gold{row.texts("answers"), {}};
  if (gold.answers.empty()) {
    throw row.error("\"answers\" is empty; expected at least one");
  }
  if (subset.metric == LongMetric::kClassification) {
    gold.classes = row.texts("all_classes");
    if (gold.classes.empty()) {
      throw row.error("\"all_classes\" is empty; expected at least one");
    }
  }
  if (subset.metric == LongMetric::kRetrieval) {
    for (const std::string& answer : gold.answers) {
      try {
        retrieval_score("", answer);
      } catch (const Error& error) {
        throw row.error(error.what());
      }
    }
  }
  return gold;
}

std::vector<PreparedTask> prepare(const TaskContext& context) {
  const Subset& subset = subset_of(context);
  const std::string name(subset.name);
  const fs::path file = task_file(context, context.info.files);
  PreparedTask task;
  std::vector<fs::path> files{file};
  const auto form = value_in(context, "dataset2prompt.json", name, files);
  const auto length = value_in(context, "dataset2maxlen.json", name, files);
  if (!form.is_string() || !length.is_number_integer() ||
      length.get<std::int64_t>() < 1) {
    throw Error(concat("dataset2prompt.json and dataset2maxlen.json: \"", name,
                       "\" has to be a template and a number of tokens"),
                ExitCode::kBadInput);
  }
  task.batch.kind = RequestKind::kGeneration;
  task.batch.bos = true;
  task.batch.generation = rule_of(context, subset, length.get<std::int64_t>());
  task.protocol = task.batch.generation.truncation == Truncation::kMiddle
                      ? "middle"
                      : "left";
  std::vector<Gold> golds;
  for (const Row& row : task_rows(context, file, task)) {
    golds.push_back(gold_of(subset, row));
    task.batch.requests.push_back(
        {.context = filled_in(form.get<std::string>(), row.text("context"),
                              row.text("input")),
         .place = row.place(),
         .label = joined_labels(golds.back().answers)});
  }
  task.data_hash = hash_of_files(files);
  task.score = [&subset,
                golds = std::move(golds)](std::span<const Answer> answers) {
    std::vector<double> scores;
    for (std::size_t i = 0; i < answers.size(); ++i) {
      scores.push_back(document_score(subset, answers[i].output, golds[i]));
    }
    return Scores{{mean_metric(metric_name(subset.metric), scores)}, scores};
  };
  std::vector<PreparedTask> all;
  all.push_back(std::move(task));
  return all;
}

std::vector<PreparedTask> refuse(const TaskContext& context) {
  throw Error(concat(context.info.name,
                     " is Chinese and left out; the 16 English and code "
                     "subsets are there"),
              ExitCode::kUsage);
}

}  // namespace

std::vector<TaskDefinition> longbench_tasks() {
  std::vector<TaskDefinition> tasks;
  for (const Subset& subset : kSubsets) {
    const std::string name(subset.name);
    const std::string metric = metric_name(subset.metric);
    tasks.push_back(
        {{concat("longbench_", name),
          "longbench",
          metric,
          concat("--data: ", name,
                 ".jsonl with context, input, answers, all_classes; beside it "
                 "dataset2prompt.json and dataset2maxlen.json of LongBench"),
          concat("load_dataset(\"THUDM/LongBench\", \"", name,
                 "\", split=\"test\"); the two files from its repository"),
          metric,
          false,
          {"middle", "left"},
          {concat("eval/longbench/", name, ".jsonl"),
           concat("longbench/", name, ".jsonl")}},
         prepare,
         always({"--protocol", "--max-len", "--bos"})});
  }
  for (const std::string_view name : kChinese) {
    tasks.push_back(
        {{concat("longbench_", name), "", "left out",
          "a word segmenter, which is not there: Chinese has no spaces", "",
          ""},
         refuse,
         always({"--protocol", "--max-len", "--bos"})});
  }
  return tasks;
}

}  // namespace osdn::eval
