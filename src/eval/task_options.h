#pragma once
// Options that are of some tasks: whether those that were asked for take them.

#include <vector>

#include "osdn/eval/options.h"
#include "osdn/eval/task_table.h"

namespace osdn::eval {

/// Throws Error (kUsage) where none of the tasks has such a --protocol, naming
/// those that they have, and for an option that was given and that none of them
/// reads.
void check_task_options(const std::vector<SelectedTask>& tasks,
                        const EvalOptions& options);

}  // namespace osdn::eval
