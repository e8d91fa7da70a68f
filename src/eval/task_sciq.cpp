// SciQ (Welbl et al. 2017): science questions behind a supporting text.

#include "osdn/eval/multiple_choice.h"
#include "osdn/eval/python_text.h"

namespace osdn::eval {
namespace {

ChoiceDocument document(const Row& row) {
  const std::string support = row.text("support");
  return {{std::string(strip_left(support)) +
           "\nQuestion: " + row.text("question") + "\nAnswer:"},
          {row.text("distractor1"), row.text("distractor2"),
           row.text("distractor3"), row.text("correct_answer")},
          3};
}

}  // namespace

std::vector<TaskDefinition> sciq_tasks() {
  return {choice_task(
      {{"sciq", "commonsense", "acc, acc_norm, acc_bytes",
        "--data: sciq.jsonl with support, question, correct_answer, "
        "distractor1 to distractor3",
        R"(load_dataset("allenai/sciq", split="test"))", "acc"},
       {"eval/sciq.jsonl"},
       document})};
}

}  // namespace osdn::eval
