#include "osdn/train/device_collectives.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "osdn/core/concat.h"
#include "osdn/core/log.h"
#include "osdn/ops/cuda_stream.h"

namespace osdn::train {

namespace {

std::shared_ptr<void> gpu_memory(std::int64_t bytes, c10::Device device) {
  try {
    const at::Tensor memory =
        at::empty({bytes}, at::device(device).dtype(at::kByte));
    return {memory.data_ptr(), [memory](void* /*in it*/) {}};
  } catch (const c10::OutOfMemoryError&) {
    throw Error(concat("out of GPU memory: no ", bytes,
                       " bytes are left to exchange gradients through"));
  }
}

dist::GpuWork gpu_work(c10::Device device) {
  return {[device] { return ops::current_stream(device); },
          [device](std::int64_t bytes) { return gpu_memory(bytes, device); }};
}

}  // namespace

std::unique_ptr<dist::Collectives> device_collectives(
    dist::World& world, c10::Device device, const config::DistConfig& config) {
  if (device.is_cpu()) return dist::host_collectives(world);
  if (config.gpu_exchange == "nccl") {
    return dist::nccl_collectives(world, gpu_work(device));
  }
  try {
    auto peers = dist::peer_collectives(world, gpu_work(device));
    log::info("ranks copy from one GPU's memory to another's");
    return peers;
  } catch (const dist::AgreedError& error) {
    if (config.gpu_exchange == "peer") {
      world.throw_agreed(
          concat("dist.gpu_exchange is \"peer\", which does not work here: ",
                 error.what(), "; take \"nccl\" or \"auto\""),
          ExitCode::kUsage);
    }
    log::info("ranks exchange through NCCL: ", error.what());
  }
  return dist::nccl_collectives(world, gpu_work(device));
}

}  // namespace osdn::train
