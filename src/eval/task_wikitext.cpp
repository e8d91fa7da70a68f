// WikiText-2 (Merity et al. 2017), as published word perplexities count it.

#include "osdn/eval/task_data.h"
#include "rolling_task.h"

namespace osdn::eval {

std::vector<TaskDefinition> wikitext_tasks() {
  return {{{"wikitext",
            "",
            "word, byte and token perplexity of WikiText-2, as published "
            "numbers count it",
            "--data FILE or FOLDER: wikitext2_test.raw, or wikitext.jsonl with "
            "a page a line",
            R"(load_dataset("EleutherAI/wikitext_document_level", )"
            R"("wikitext-2-raw-v1", split="test"))",
            "word_perplexity",
            false,
            {},
            {"eval/wikitext2_test.raw", "wikitext.jsonl"}},
           [](const TaskContext& context) {
             const auto file = task_file(context, context.info.files);
             return rolling_task(
                 context, read_wikitext(file, context.options.data.limit));
           },
           always({"--rolling", "--max-len", "--bos"})}};
}

}  // namespace osdn::eval
