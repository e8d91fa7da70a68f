// ARC (Clark et al. 2018): school science, an easy set and a hard one.

#include "labelled_choices.h"
#include "osdn/core/concat.h"

namespace osdn::eval {
namespace {

ChoiceDocument document(const Row& row) {
  return labelled_choices(row,
                          "Question: " + row.text("question") + "\nAnswer:",
                          row.is_first_layout({"gold"}, {"answerKey"}));
}

TaskDefinition task(const std::string& name, const std::string& config,
                    const std::string& paper_metric) {
  return choice_task(
      {{name, "commonsense", "acc, acc_norm, acc_bytes",
        concat("--data: ", name,
               ".jsonl with question, choices{text, label}, answerKey; or "
               "question, choices, gold"),
        concat(R"(load_dataset("allenai/ai2_arc", ")", config,
               R"(", split="test"))"),
        paper_metric},
       {concat("eval/", name, ".jsonl")},
       document});
}

}  // namespace

std::vector<TaskDefinition> arc_tasks() {
  return {task("arc_easy", "ARC-Easy", "acc"),
          task("arc_challenge", "ARC-Challenge", "acc_norm")};
}

}  // namespace osdn::eval
