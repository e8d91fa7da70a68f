#include "osdn/train/device_collectives.h"

#include "osdn/ops/cuda_stream.h"

namespace osdn::train {

std::unique_ptr<dist::Collectives> device_collectives(dist::World& world,
                                                      c10::Device device) {
  if (device.is_cpu()) return dist::host_collectives(world);
  return dist::nccl_collectives(
      world, [device] { return ops::current_stream(device); });
}

}  // namespace osdn::train
