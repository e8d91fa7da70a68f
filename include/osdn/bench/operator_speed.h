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
  double both_s = 0;     ///< forward and backward
};

/// Times a case in bf16 on fresh random inputs.
OperatorSpeed time_operator(const OperatorCase& c, const Limits& limits,
                            at::Device device, int runs);

}  // namespace osdn::bench
