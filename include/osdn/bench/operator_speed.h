#pragma once
// How fast the operators of the table are on this machine's GPU.

#include <string>
#include <vector>

#include "osdn/bench/operator_table.h"
#include "osdn/bench/timing.h"

namespace osdn::bench {

struct OperatorSpeed {
  std::string op;
  std::string shape;
  double limit_s = 0;    ///< forward: the larger of its two times at the limits
  double forward_s = 0;  ///< medians
  double both_s = 0;     ///< forward and backward; 0 where there is none
};

/// Times a case in bf16 on fresh random inputs: as the host hands it over, and
/// one without gradients, which is part of a recorded step, as a recording of
/// several calls.
OperatorSpeed time_operator(const OperatorCase& c, const Limits& limits,
                            at::Device device, int runs);

}  // namespace osdn::bench
