#pragma once
// Which GPU of its host a rank computes on.

#include <optional>
#include <string>

#include "osdn/dist/place.h"

namespace osdn::dist {

/// The value for CUDA_VISIBLE_DEVICES that leaves a rank its own GPU: of those
/// that `visible` (the variable's value) lists, or of all, the one of its place
/// on the host. A list of one GPU stays: the launcher has chosen. Throws Error
/// (kUsage) when the list is shorter than the ranks of the host.
std::string visible_gpu(const std::optional<std::string>& visible,
                        const Place& place);

/// Sets the variable so, before CUDA starts; nothing for a rank that no
/// launcher started.
void take_own_gpu(const Place& place);

}  // namespace osdn::dist
