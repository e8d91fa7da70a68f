// PIQA (Bisk et al. 2020): which of two ways reaches a goal. The solutions'
// outer spaces belong to them.

#include "osdn/eval/multiple_choice.h"

namespace osdn::eval {
namespace {

ChoiceDocument document(const Row& row) {
  return {{"Question: " + row.text("goal") + "\nAnswer:"},
          {row.text("sol1"), row.text("sol2")},
          row.index("label", 2)};
}

}  // namespace

std::vector<TaskDefinition> piqa_tasks() {
  return {
      choice_task({{"piqa", "commonsense", "acc, acc_norm, acc_bytes",
                    "--data: piqa.jsonl with goal, sol1, sol2, label (0 or 1)",
                    R"(load_dataset("baber/piqa", split="validation"))", "acc"},
                   {"eval/piqa.jsonl"},
                   document})};
}

}  // namespace osdn::eval
