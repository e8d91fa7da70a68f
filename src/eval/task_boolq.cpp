// BoolQ (Clark et al. 2019): yes or no about a passage.

#include "osdn/eval/multiple_choice.h"

namespace osdn::eval {
namespace {

ChoiceDocument document(const Row& row) {
  return {{row.text("passage") + "\nQuestion: " + row.text("question") +
           "?\nAnswer:"},
          {"no", "yes"},
          row.truth("label")};
}

}  // namespace

std::vector<TaskDefinition> boolq_tasks() {
  return {choice_task(
      {{"boolq", "commonsense", "acc",
        "--data: boolq.jsonl with passage, question, label (0 = no)",
        R"(load_dataset("aps/super_glue", "boolq", split="validation"))",
        "acc"},
       {"eval/boolq.jsonl"},
       document,
       false})};
}

}  // namespace osdn::eval
