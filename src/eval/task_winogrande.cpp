// WinoGrande (Sakaguchi et al. 2020): who or what a gap stands for. Each option
// fills the gap, and the end of the sentence, the same for both, is scored.

#include "osdn/eval/multiple_choice.h"
#include "osdn/eval/python_text.h"

namespace osdn::eval {
namespace {

ChoiceDocument filled(const Row& row) {
  const std::string end = row.text("continuation");
  const auto contexts = row.texts("context_options");
  if (contexts.size() != 2) {
    throw row.error("\"context_options\" has to hold 2 texts");
  }
  return {contexts, {end, end}, row.index("gold", 2)};
}

ChoiceDocument document(const Row& row) {
  if (row.is_first_layout({"context_options", "continuation", "gold"},
                          {"sentence", "option1", "option2", "answer"})) {
    return filled(row);
  }
  const std::string sentence = row.text("sentence");
  const std::size_t gap = sentence.find('_');
  if (gap == std::string::npos) {
    throw row.error("\"sentence\" has no gap, a _");
  }
  const std::string end(strip(std::string_view(sentence).substr(gap + 1)));
  const std::int64_t answer = row.number("answer");
  if (answer != 1 && answer != 2) {
    throw row.error("\"answer\" has to be \"1\" or \"2\"");
  }
  return {{sentence.substr(0, gap) + row.text("option1"),
           sentence.substr(0, gap) + row.text("option2")},
          {end, end},
          static_cast<std::size_t>(answer - 1)};
}

}  // namespace

std::vector<TaskDefinition> winogrande_tasks() {
  return {choice_task(
      {{"winogrande", "commonsense", "acc",
        "--data: winogrande.jsonl with sentence, option1, option2, answer; or "
        "context_options, continuation, gold",
        R"(load_dataset("allenai/winogrande", "winogrande_xl", )"
        R"(split="validation"))",
        "acc"},
       {"eval/winogrande.jsonl"},
       document,
       false})};
}

}  // namespace osdn::eval
