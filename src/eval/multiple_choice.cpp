#include "osdn/eval/multiple_choice.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/log.h"
#include "osdn/eval/means.h"
#include "osdn/eval/python_text.h"
#include "osdn/eval/shots.h"

namespace osdn::eval {
namespace {

const std::string& context_of(const ChoiceDocument& document,
                              std::size_t choice) {
  return document.contexts.size() == 1 ? document.contexts.front()
                                       : document.contexts[choice];
}

ChoiceDocument checked(const ChoiceTask& task, const Row& row) {
  ChoiceDocument document = task.document(row);
  if (document.choices.size() < 2) {
    throw row.error(concat("there are ", document.choices.size(),
                           " choices, expected 2 or more"));
  }
  if (std::all_of(
          document.choices.begin(), document.choices.end(),
          [](const std::string& text) { return strip(text).empty(); })) {
    throw row.error("every choice is blank, expected texts to choose from");
  }
  if (document.gold >= document.choices.size()) {
    throw row.error(concat("the right choice is number ", document.gold,
                           ", and there are ", document.choices.size()));
  }
  return document;
}

/// The index of the largest value, of equal ones the first.
std::size_t largest(const std::vector<double>& values) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] > values[best]) best = i;
  }
  return best;
}

double per_unit(double sum, std::size_t units) {
  return units > 0 ? sum / static_cast<double>(units)
                   : -std::numeric_limits<double>::infinity();
}

/// Whether the right choice won, by sum, by characters and by bytes.
struct Won {
  double by_sum, by_characters, by_bytes;
};

Won won(const ChoiceDocument& document, std::span<const Answer> answers) {
  std::vector<double> sums, characters, bytes;
  for (std::size_t i = 0; i < document.choices.size(); ++i) {
    const std::string& choice = document.choices[i];
    const double sum = answers[i].log_likelihood;
    sums.push_back(sum);
    characters.push_back(per_unit(sum, code_point_length(choice)));
    bytes.push_back(per_unit(sum, choice.size()));
  }
  const auto right = [&](const std::vector<double>& values) {
    return largest(values) == document.gold ? 1.0 : 0.0;
  };
  return {right(sums), right(characters), right(bytes)};
}

Scores score(const std::vector<ChoiceDocument>& documents, bool by_length,
             std::span<const Answer> answers) {
  std::vector<double> by_sum, by_characters, by_bytes;
  Scores scores;
  for (const ChoiceDocument& document : documents) {
    const std::size_t count = document.choices.size();
    const Won one = won(document, answers.first(count));
    answers = answers.subspan(count);
    by_sum.push_back(one.by_sum);
    by_characters.push_back(one.by_characters);
    by_bytes.push_back(one.by_bytes);
    scores.rows.insert(scores.rows.end(), count, one.by_sum);
  }
  scores.metrics.push_back(mean_metric("acc", by_sum));
  if (by_length) {
    scores.metrics.push_back(mean_metric("acc_norm", by_characters));
    scores.metrics.push_back(mean_metric("acc_bytes", by_bytes));
  }
  return scores;
}

void add_requests(const ChoiceDocument& document, const std::string& place,
                  std::int64_t index, const std::string& shots,
                  PreparedTask& prepared) {
  for (std::size_t i = 0; i < document.choices.size(); ++i) {
    const std::string& choice = document.choices[i];
    if (choice.empty()) {
      log::warn(place, ": choice ", i, " is empty");
      ++prepared.no_label;
    }
    prepared.batch.requests.push_back({shots + context_of(document, i),
                                       " " + choice, place,
                                       document.choices[document.gold], index});
  }
}

std::vector<PreparedTask> prepare(const ChoiceTask& task,
                                  const TaskContext& context) {
  const auto file = task_file(context, task.files);
  const std::string shots = shots_of(context, [&](const Row& row) {
    const ChoiceDocument document = checked(task, row);
    return context_of(document, document.gold) + " " +
           document.choices[document.gold];
  });
  PreparedTask prepared;
  std::vector<ChoiceDocument> documents;
  for (const Row& row : task_rows(context, file, prepared)) {
    const std::string name = task.name ? task.name(row) : "";
    if (!documents.empty() && name != prepared.name) {
      throw row.error("this row has another layout than those before it");
    }
    prepared.name = name;
    documents.push_back(checked(task, row));
    add_requests(documents.back(), row.place(), std::ssize(documents) - 1,
                 shots, prepared);
  }
  prepared.score = [documents = std::move(documents),
                    by_length =
                        task.by_length](std::span<const Answer> answers) {
    return score(documents, by_length, answers);
  };
  std::vector<PreparedTask> all;
  all.push_back(std::move(prepared));
  return all;
}

}  // namespace

TaskDefinition choice_task(ChoiceTask task) {
  TaskInfo info = task.info;
  info.files = task.files;
  return {std::move(info),
          [task = std::move(task)](const TaskContext& context) {
            return prepare(task, context);
          },
          always({"--shots", "--shots-file", "--max-len", "--bos"})};
}

}  // namespace osdn::eval
