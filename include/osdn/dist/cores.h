#pragma once
// The processor cores that ranks may run on; launchers bind them.

#include <cstdint>
#include <string>
#include <vector>

#include "osdn/dist/world.h"

namespace osdn::dist {

/// Cores that this process may run on, rising; never empty.
std::vector<int> usable_cores();

/// "0-3,8": cores as taskset writes them.
std::string cores_text(const std::vector<int>& cores);

struct CoreShare {
  /// Ranks of this host with the same cores, this one included.
  int sharers = 1;
  std::int64_t cores = 1;  ///< what falls to this rank; at least 1
  /// Empty, or why the cores are too few for a rank's computation and its
  /// loader, and how to start it otherwise.
  std::string warning;
};

/// Collective.
CoreShare core_share(World& world);
/// The cores that fall to this rank; the warnings of all ranks are logged.
/// Collective.
std::int64_t take_cores(World& world);

}  // namespace osdn::dist
