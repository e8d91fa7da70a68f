#pragma once
// What ppl and wikitext share.

#include "osdn/eval/task.h"
#include "osdn/eval/text_data.h"

namespace osdn::eval {

/// Documents as rolling requests, and their perplexities. Throws Error
/// (kUsage) for options that have no meaning here.
std::vector<PreparedTask> rolling_task(const TaskContext& context, DataSet set);

}  // namespace osdn::eval
