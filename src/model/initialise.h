#pragma once
// First values of one parameter.

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "osdn/arch/parameter_table.h"

namespace osdn::model {

/// Fills `tensor` as `info` says, from the stream (seed, name). `range` is the
/// standard deviation of Init::kNormal.
void initialise_parameter(const arch::Parameter& info, double range,
                          std::uint64_t seed, at::Tensor& tensor);

}  // namespace osdn::model
