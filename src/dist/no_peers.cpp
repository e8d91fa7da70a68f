// The twin of peer_collectives.cpp for builds without CUDA.

#include "osdn/dist/collectives.h"

namespace osdn::dist {

std::unique_ptr<Collectives> peer_collectives(World& world, GpuWork /*gpu*/) {
  world.throw_agreed("this program was built without CUDA", ExitCode::kUsage);
}

}  // namespace osdn::dist
