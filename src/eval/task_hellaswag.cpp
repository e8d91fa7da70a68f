// HellaSwag (Zellers et al. 2019): how a scene goes on.

#include "hellaswag_text.h"
#include "osdn/eval/multiple_choice.h"

namespace osdn::eval {
namespace {

/// The first 2,000 rows with the context built already, its capitals only
/// about right: not to be compared with published numbers.
bool is_built(const Row& row) {
  return row.is_first_layout(
      {"query", "choices", "gold"},
      {"activity_label", "ctx_a", "ctx_b", "endings", "label"});
}

ChoiceDocument document(const Row& row) {
  if (is_built(row)) {
    auto choices = row.texts("choices");
    const std::size_t gold = row.index("gold", choices.size());
    return {{row.text("query")}, std::move(choices), gold};
  }
  ChoiceDocument document;
  document.contexts = {
      hellaswag_text(row.text("activity_label") + ": " + row.text("ctx_a") +
                     " " + first_upper_rest_lower(row.text("ctx_b")))};
  for (const std::string& ending : row.texts("endings")) {
    document.choices.push_back(hellaswag_text(ending));
  }
  document.gold = row.index("label", document.choices.size());
  return document;
}

std::string name(const Row& row) {
  return is_built(row) ? "hellaswag_2000" : "";
}

}  // namespace

std::vector<TaskDefinition> hellaswag_tasks() {
  return {choice_task(
      {{"hellaswag", "commonsense", "acc, acc_norm, acc_bytes",
        "--data: hellaswag.jsonl with activity_label, ctx_a, ctx_b, endings, "
        "label; or hellaswag_2000.jsonl with query, choices, gold, whose "
        "results are named so and not comparable with papers",
        R"(load_dataset("Rowan/hellaswag", split="validation"))", "acc_norm"},
       {"eval/hellaswag.jsonl", "eval/hellaswag_2000.jsonl"},
       document,
       true,
       name})};
}

}  // namespace osdn::eval
