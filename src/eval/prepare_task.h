#pragma once
// Tasks made ready, with what the options say of all of them.

#include <functional>
#include <vector>

#include "evaluation_session.h"
#include "osdn/eval/evaluation.h"
#include "osdn/eval/ranks.h"
#include "osdn/eval/task_table.h"

namespace osdn::eval {

/// A task's requests, one entry a protocol, name and hash filled in. Throws
/// Error, the same on all ranks: for data that is missing or not sound, for
/// data of which no row is left to ask, for options that the task does not
/// take, and where a rank reads other data than the first.
std::vector<PreparedTask> prepare_task(const EvaluationSession& session,
                                       const TaskDefinition& task,
                                       const Ranks& ranks);

/// Calls `run` for each of the tasks in turn, which prepares it and may throw.
/// What goes wrong is added to `failures` with what the task needs; that the
/// data of a task is missing is not, where its group runs what is found, unless
/// nothing of the group is.
void for_each_task(const std::vector<SelectedTask>& selected,
                   const std::function<void(const SelectedTask&)>& run,
                   std::vector<TaskFailure>& failures);

}  // namespace osdn::eval
