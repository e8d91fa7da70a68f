#pragma once
// The collectives for tensors on a device.

#include <c10/core/Device.h>

#include <memory>

#include "osdn/config/config.h"
#include "osdn/dist/collectives.h"

namespace osdn::train {

/// On the host over the world's transport; on a GPU as `config` says, beside
/// the stream that is current at the time of each call. `world` outlives them.
/// Collective. Throws AgreedError where GPUs cannot exchange as asked for.
std::unique_ptr<dist::Collectives> device_collectives(
    dist::World& world, c10::Device device, const config::DistConfig& config);

}  // namespace osdn::train
