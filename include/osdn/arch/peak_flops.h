#pragma once
// What GPUs can do at most, for model FLOP utilisation.

#include <optional>
#include <string>

namespace osdn::arch {

/// Operations a second in dense bf16 that the maker's datasheet names; none for
/// a GPU that is not known here. `gpu_name` is the driver's, "NVIDIA H200".
std::optional<double> peak_flops(const std::string& gpu_name);

}  // namespace osdn::arch
