#include <algorithm>
#include <string>
#include <vector>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/eval/longbench_metrics.h"

namespace osdn::eval {
namespace {

constexpr std::string_view kDigits = "0123456789";

/// The digits from `at` on.
std::string_view number_at(std::string_view text, std::size_t at) {
  return text.substr(
      at, std::min(text.find_first_not_of(kDigits, at), text.size()) - at);
}

/// Runs of digits.
std::vector<std::string_view> numbers_in(std::string_view text) {
  std::vector<std::string_view> numbers;
  for (std::size_t at = text.find_first_of(kDigits);
       at != std::string_view::npos;) {
    numbers.push_back(number_at(text, at));
    at = text.find_first_of(kDigits, at + numbers.back().size());
  }
  return numbers;
}

bool contains_text(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

double classification_score(std::string_view output, std::string_view answer,
                            std::span<const std::string> classes) {
  std::vector<std::string_view> named;
  for (const std::string& name : classes) {
    if (contains_text(output, name)) named.push_back(name);
  }
  for (std::size_t i = 0; i < named.size(); ++i) {
    // The index goes on although what follows has moved up: the original walks
    // a list that it shortens.
    if (named[i] != answer && contains_text(answer, named[i])) {
      named.erase(named.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  const bool found =
      std::find(named.begin(), named.end(), answer) != named.end();
  return found ? 1.0 / static_cast<double>(named.size()) : 0;
}

double count_score(std::string_view output, std::string_view answer) {
  const std::vector<std::string_view> numbers = numbers_in(output);
  if (numbers.empty()) return 0;
  return static_cast<double>(
             std::count(numbers.begin(), numbers.end(), answer)) /
         static_cast<double>(numbers.size());
}

double retrieval_score(std::string_view output, std::string_view answer) {
  constexpr std::string_view kBefore = "Paragraph ";
  for (std::size_t at = answer.find(kBefore); at != std::string_view::npos;
       at = answer.find(kBefore, at + 1)) {
    const std::string_view number = number_at(answer, at + kBefore.size());
    if (!number.empty()) return count_score(output, number);
  }
  throw Error(
      concat("the answer \"", answer, "\" has no number after \"Paragraph \""),
      ExitCode::kBadInput);
}

}  // namespace osdn::eval
