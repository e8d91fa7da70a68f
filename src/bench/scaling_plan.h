#pragma once
// What a rank computes and sends in a step, in order.

#include <cstddef>
#include <vector>

#include "osdn/bench/scaling.h"

namespace osdn::bench {

/// A piece of the computation.
struct ScalingWork {
  double seconds = 0;
  int after = 0;     ///< transfers that must be done before it begins
  int releases = 0;  ///< transfers that may begin when it and all before it end
};

struct ScalingPlan {
  std::vector<ScalingWork> work;
  std::vector<double> transfers;  ///< seconds of each, in order
  int buckets = 0;
};

/// Forward and backward of one step, with the weights of the update before
/// still under way at its start.
ScalingPlan plan_step(const ScalingCase& scaling, const Cluster& cluster,
                      int ranks);

struct Timeline {
  double work_end_s = 0;
  double transfers_end_s = 0;
};

/// Runs both in order, side by side; `slowdown` as in Cluster.
Timeline play(const ScalingPlan& plan, double slowdown);

}  // namespace osdn::bench
