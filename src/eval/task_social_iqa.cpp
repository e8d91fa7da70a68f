// Social IQa (Sap et al. 2019): three answers about people.

#include "osdn/eval/multiple_choice.h"

namespace osdn::eval {
namespace {

ChoiceDocument document(const Row& row) {
  const auto context = [](const std::string& text) {
    return std::vector<std::string>{"Q: " + text + "\nA:"};
  };
  if (row.is_first_layout(
          {"context_question", "answers", "gold"},
          {"context", "question", "answerA", "answerB", "answerC", "label"})) {
    auto answers = row.texts("answers");
    const std::size_t gold = row.index("gold", answers.size());
    return {context(row.text("context_question")), std::move(answers), gold};
  }
  const std::int64_t label = row.number("label");
  if (label < 1 || label > 3) throw row.error("\"label\" has to be 1, 2 or 3");
  return {context(row.text("context") + " " + row.text("question")),
          {row.text("answerA"), row.text("answerB"), row.text("answerC")},
          static_cast<std::size_t>(label - 1)};
}

}  // namespace

std::vector<TaskDefinition> social_iqa_tasks() {
  return {choice_task(
      {{"social_iqa", "commonsense", "acc",
        "--data: social_iqa.jsonl or siqa.jsonl with context, question, "
        "answerA to answerC, label (1 to 3); or context_question, answers, "
        "gold",
        R"(load_dataset("lighteval/siqa", split="validation"))", "acc"},
       {"eval/siqa.jsonl", "eval/social_iqa.jsonl"},
       document,
       false})};
}

}  // namespace osdn::eval
