// The twin of nccl_collectives.cpp for builds without NCCL.

#include "osdn/core/error.h"
#include "osdn/dist/collectives.h"

namespace osdn::dist {

std::unique_ptr<Collectives> nccl_collectives(World& /*world*/,
                                              GpuWork /*gpu*/) {
  throw Error(
      "this program was built without NCCL, which GPUs that do not reach one "
      "another's memory need; build it where nccl.h is found, or start it on "
      "one GPU",
      ExitCode::kUsage);
}

std::string nccl_trouble() {
  return "";
}

void nccl_abort() {}

}  // namespace osdn::dist
