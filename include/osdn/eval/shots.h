#pragma once
// Solved examples in front of a context (--shots, --shots-file).

#include <functional>
#include <string>

#include "osdn/eval/task.h"
#include "osdn/eval/task_data.h"

namespace osdn::eval {

/// The first --shots rows of --shots-file, each made a solved example by
/// `solved`, a blank line behind each; empty without --shots. Throws Error
/// (kBadInput) when the file has fewer rows.
std::string shots_of(const TaskContext& context,
                     const std::function<std::string(const Row&)>& solved);

}  // namespace osdn::eval
