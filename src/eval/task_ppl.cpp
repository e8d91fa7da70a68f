// Perplexity of any text.

#include "rolling_task.h"

namespace osdn::eval {

std::vector<TaskDefinition> ppl_tasks() {
  return {{{"ppl", "", "word, byte and token perplexity",
            "--data FILE or FOLDER: .txt or .jsonl, also .zst", "any text",
            "word_perplexity"},
           [](const TaskContext& context) {
             return rolling_task(context,
                                 read_text_documents(context.options.data));
           },
           always({"--split", "--field", "--rolling", "--max-len", "--bos"})}};
}

}  // namespace osdn::eval
