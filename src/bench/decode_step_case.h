#pragma once
// The decoding step as an operator case: no gradient, one token a sequence.

#include <cstdint>
#include <string>

#include "osdn/bench/operator_table.h"

namespace osdn::bench {

struct DecodeShape {
  std::string name;
  Use use;
  std::int64_t N, H, HV, K, V;
};

/// An OSDN-APF layer of DeltaNet with an output gate: all that a step can do
/// but a decay.
OperatorCase decode_step_case(const DecodeShape& shape);

}  // namespace osdn::bench
