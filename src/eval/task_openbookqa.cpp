// OpenBookQA (Mihaylov et al. 2018). Papers show acc or acc_norm; the group's
// average takes acc_norm.

#include "labelled_choices.h"

namespace osdn::eval {
namespace {

ChoiceDocument document(const Row& row) {
  const bool plain =
      row.is_first_layout({"query", "gold"}, {"question_stem", "answerKey"});
  return labelled_choices(row, row.text(plain ? "query" : "question_stem"),
                          plain);
}

}  // namespace

std::vector<TaskDefinition> openbookqa_tasks() {
  return {choice_task(
      {{"openbookqa", "commonsense", "acc, acc_norm, acc_bytes",
        "--data: openbookqa.jsonl with question_stem, choices{text, label}, "
        "answerKey; or query, choices, gold",
        R"(load_dataset("allenai/openbookqa", "main", split="test"))",
        "acc_norm"},
       {"eval/openbookqa.jsonl"},
       document})};
}

}  // namespace osdn::eval
