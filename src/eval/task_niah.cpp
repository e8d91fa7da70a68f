// Needles in a haystack (Hsieh et al. 2024, RULER), generated: eight tasks at
// each of the lengths that are asked for.

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "generated_text.h"
#include "osdn/core/concat.h"
#include "osdn/eval/means.h"
#include "osdn/eval/python_text.h"
#include "osdn/eval/task_data.h"
#include "osdn/synth/needles.h"

namespace osdn::eval {
namespace {

constexpr std::int64_t kDocuments = 500;
constexpr std::int64_t kDepths = 5;

struct Asked {
  std::vector<std::string> answers;
  std::vector<double> depths;
};

/// The share of a document's values that its output holds; by depth, each value
/// for itself.
Scores score(std::span<const Answer> answers, const std::vector<Asked>& asked) {
  std::vector<double> shares;
  std::vector<AtDepth> values;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    double hits = 0;
    for (std::size_t v = 0; v < asked[i].answers.size(); ++v) {
      const bool hit =
          find_ignoring_case(answers[i].output, asked[i].answers[v])
              .has_value();
      hits += hit ? 1 : 0;
      values.push_back({asked[i].depths[v], hit ? 1.0 : 0.0});
    }
    shares.push_back(hits / static_cast<double>(asked[i].answers.size()));
  }
  Metric metric = mean_metric("recall", shares);
  metric.detail =
      concat("{\"by_depth\":", by_depth("recall", values, kDepths), "}");
  return {{std::move(metric)}, shares};
}

PreparedTask prepare_length(const TaskContext& context,
                            const synth::NeedleTask& needle,
                            const synth::WordLists& words,
                            const synth::Essay& essay, std::int64_t tokens) {
  const EvalOptions& options = context.options;
  const std::uint64_t seed = options.seed.value_or(kGeneratorSeed);
  const synth::NeedleGenerator generator(
      needle, words, essay, context.need_tokenizer(), tokens, seed);
  PreparedTask task;
  task.protocol = concat(tokens);
  task.data = concat("haystack: ", generator.haystack(), words_text(words));
  std::vector<std::filesystem::path> files = words.files;
  if (needle.hay == synth::Hay::kEssay && options.generated.haystack) {
    files.push_back(*options.generated.haystack);
  }
  task.data_hash = hash_of_files(files);
  task.seed = seed;
  task.settings = nlohmann::ordered_json{{"target_tokens", tokens}}.dump();
  task.batch.kind = RequestKind::kGeneration;
  task.batch.generation.max_new_tokens = synth::kNeedleAnswerTokens;
  std::vector<Asked> asked;
  const std::int64_t count = document_count(options, kDocuments, task);
  for (std::int64_t i = 0; i < count; ++i) {
    synth::NeedleDocument d = generator.document(static_cast<std::uint64_t>(i));
    task.batch.requests.push_back(
        {.context = std::move(d.prompt),
         .place = concat(needle.name, " of ", tokens, " tokens, document ", i),
         .label = joined_labels(d.answers)});
    asked.push_back({std::move(d.answers), std::move(d.depths)});
  }
  task.score = [asked = std::move(asked)](std::span<const Answer> answers) {
    return score(answers, asked);
  };
  return task;
}

std::vector<PreparedTask> prepare(const TaskContext& context,
                                  const synth::NeedleTask& needle) {
  const GeneratedTaskOptions& options = context.options.generated;
  const synth::WordLists words =
      synth::word_lists(options.words, synth::Split::kTest);
  const synth::Essay essay = synth::read_essay(options.haystack);
  std::vector<PreparedTask> all;
  for (const std::int64_t tokens : options.target_tokens) {
    all.push_back(prepare_length(context, needle, words, essay, tokens));
  }
  return all;
}

std::vector<std::string> options_of(const synth::NeedleTask& needle) {
  std::vector<std::string> names = {"--documents",     "--seed",    "--words",
                                    "--target-tokens", "--max-len", "--bos"};
  if (needle.hay == synth::Hay::kEssay) names.emplace_back("--haystack");
  return names;
}

}  // namespace

std::vector<TaskDefinition> niah_tasks() {
  std::vector<TaskDefinition> tasks;
  for (const synth::NeedleTask& needle : synth::needle_tasks()) {
    tasks.push_back({{needle.name, "niah",
                      "recall: the share of the needles' values that the "
                      "output holds, also by depth",
                      "nothing but a tokenizer; --haystack FILE and --words "
                      "FOLDER replace what is built in",
                      "", "recall"},
                     [&needle](const TaskContext& context) {
                       return prepare(context, needle);
                     },
                     always(options_of(needle))});
  }
  return tasks;
}

}  // namespace osdn::eval
