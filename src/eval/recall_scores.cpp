#include "recall_scores.h"

#include "osdn/eval/jrt.h"

namespace osdn::eval {

std::vector<double> contains_scores(
    std::span<const Answer> answers,
    const std::vector<std::vector<std::string>>& labels) {
  std::vector<double> scores;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    scores.push_back(contains_label(answers[i].output, labels[i]) ? 1 : 0);
  }
  return scores;
}

}  // namespace osdn::eval
