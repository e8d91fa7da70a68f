#pragma once
// The average over a group's tasks.

#include <string>
#include <vector>

#include "osdn/eval/result.h"

namespace osdn::eval {

/// One result a protocol: the unweighted mean of the group's tasks, each with
/// the metric that papers show; which those are stands in its detail. A
/// protocol with fewer than two tasks has none. `metric_of` names a task's
/// metric.
struct GroupMember {
  std::string task{};    ///< as in the results
  std::string metric{};  ///< that papers show
};
std::vector<Result> group_averages(const std::string& group,
                                   const std::vector<GroupMember>& members,
                                   const std::vector<Result>& results);

}  // namespace osdn::eval
