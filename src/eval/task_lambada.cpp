// LAMBADA (Paperno et al. 2016): the last word of a passage. OpenAI's version
// and the standard one, which is tokenised and in lower case, are two tasks.

#include <utility>

#include "osdn/core/concat.h"
#include "osdn/eval/means.h"
#include "osdn/eval/shots.h"
#include "osdn/eval/task_data.h"

namespace osdn::eval {
namespace {

/// The last word with the space before it; line ends and quotes stay in it.
std::pair<std::string, std::string> at_last_space(const Row& row) {
  const std::string text = row.text("text");
  const std::size_t space = text.rfind(' ');
  if (space == std::string::npos) {
    throw row.error("\"text\" has no space, so no last word to ask for");
  }
  if (space + 1 == text.size()) {
    throw row.error("\"text\" ends in a space, so there is no last word");
  }
  return {text.substr(0, space), text.substr(space)};
}

Scores score(std::span<const Answer> answers) {
  std::vector<double> right, sums;
  for (const Answer& answer : answers) {
    right.push_back(answer.greedy ? 1 : 0);
    sums.push_back(answer.log_likelihood);
  }
  // Of a last word, not of a token.
  return {{mean_metric("acc", right), perplexity_metric("perplexity", sums)},
          right};
}

std::vector<PreparedTask> prepare(const TaskContext& context) {
  const auto file = task_file(context, context.info.files);
  const std::string shots = shots_of(context, [](const Row& row) {
    const auto [before, last] = at_last_space(row);
    return before + last;
  });
  PreparedTask prepared;
  for (const Row& row : task_rows(context, file, prepared)) {
    auto [before, last] = at_last_space(row);
    const std::string label = last.substr(1);
    prepared.batch.requests.push_back({shots + before, std::move(last),
                                       row.place(), label,
                                       std::ssize(prepared.batch.requests)});
  }
  prepared.score = score;
  std::vector<PreparedTask> all;
  all.push_back(std::move(prepared));
  return all;
}

TaskDefinition task(const std::string& name, const std::string& source) {
  return {{name,
           "",
           "acc of the last word, perplexity per last word",
           concat("--data: ", name, ".jsonl with text"),
           source,
           "acc",
           false,
           {},
           {concat("eval/", name, ".jsonl")}},
          prepare,
          always({"--shots", "--shots-file", "--max-len", "--bos"})};
}

}  // namespace

std::vector<TaskDefinition> lambada_tasks() {
  return {task("lambada_openai",
               R"(load_dataset("EleutherAI/lambada_openai", "default", )"
               R"(split="test"))"),
          task("lambada_standard",
               R"(load_dataset("cimec/lambada", split="test"))")};
}

}  // namespace osdn::eval
