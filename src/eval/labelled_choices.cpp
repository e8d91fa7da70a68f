#include "labelled_choices.h"

#include <algorithm>
#include <utility>

#include "osdn/core/concat.h"

namespace osdn::eval {

ChoiceDocument labelled_choices(const Row& row, std::string context,
                                bool plain) {
  ChoiceDocument document;
  document.contexts = {std::move(context)};
  if (plain) {
    document.choices = row.texts("choices");
    document.gold = row.index("gold", document.choices.size());
    return document;
  }
  document.choices = row.texts("choices", "text");
  const auto labels = row.texts("choices", "label");
  if (labels.size() != document.choices.size()) {
    throw row.error(concat("there are ", document.choices.size(),
                           " choices and ", labels.size(), " labels"));
  }
  const std::string key = row.text("answerKey");
  const auto found = std::find(labels.begin(), labels.end(), key);
  if (found == labels.end()) {
    throw row.error(concat("answerKey \"", key, "\" is not among the labels"));
  }
  if (std::count(labels.begin(), labels.end(), key) > 1) {
    throw row.error(concat("the label \"", key, "\" of answerKey stands there ",
                           "more than once"));
  }
  document.gold = static_cast<std::size_t>(found - labels.begin());
  return document;
}

}  // namespace osdn::eval
