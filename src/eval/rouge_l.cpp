#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "osdn/eval/longbench_metrics.h"
#include "osdn/eval/python_text.h"

namespace osdn::eval {
namespace {

using Words = std::vector<std::string>;

/// The words of each sentence. A sentence of white space has one, empty word.
std::vector<Words> sentences_of(std::string_view text) {
  std::vector<Words> sentences;
  for (const std::string_view piece : split_at(text, ".")) {
    if (piece.empty()) continue;
    Words words;
    for (const std::string_view word : split_words(piece)) {
      words.emplace_back(word);
    }
    if (words.empty()) words.emplace_back();
    sentences.push_back(std::move(words));
  }
  return sentences;
}

std::set<std::string> distinct(const std::vector<Words>& sentences) {
  std::set<std::string> words;
  for (const Words& sentence : sentences) {
    words.insert(sentence.begin(), sentence.end());
  }
  return words;
}

/// Adds the words of the longest common subsequence, traced from the end.
void add_common(const Words& answer, const Words& output,
                std::set<std::string>& common) {
  const std::size_t columns = output.size() + 1;
  std::vector<std::size_t> length((answer.size() + 1) * columns, 0);
  for (std::size_t i = 1; i <= answer.size(); ++i) {
    for (std::size_t j = 1; j < columns; ++j) {
      const std::size_t up = length[(i - 1) * columns + j];
      const std::size_t left = length[i * columns + j - 1];
      length[i * columns + j] = answer[i - 1] == output[j - 1]
                                    ? length[(i - 1) * columns + j - 1] + 1
                                    : std::max(up, left);
    }
  }
  std::size_t i = answer.size();
  std::size_t j = output.size();
  while (i > 0 && j > 0) {
    if (answer[i - 1] == output[j - 1]) {
      common.insert(answer[i - 1]);
      --i;
      --j;
    } else if (length[(i - 1) * columns + j] > length[i * columns + j - 1]) {
      --i;
    } else {
      --j;
    }
  }
}

}  // namespace

double rouge_l(std::string_view output, std::string_view answer) {
  const std::vector<Words> found = sentences_of(output);
  const std::vector<Words> wanted = sentences_of(answer);
  if (found.empty() || wanted.empty()) return 0;
  std::set<std::string> common;
  for (const Words& sentence : wanted) {
    for (const Words& other : found) add_common(sentence, other, common);
  }
  const auto hits = static_cast<double>(common.size());
  const double precision = hits / static_cast<double>(distinct(found).size());
  const double recall = hits / static_cast<double>(distinct(wanted).size());
  return 2 * (precision * recall / (precision + recall + 1e-8));
}

}  // namespace osdn::eval
