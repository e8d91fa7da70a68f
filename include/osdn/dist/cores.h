#pragma once
// The processor cores that ranks may run on; launchers bind them.

#include <string>
#include <vector>

#include "osdn/dist/world.h"

namespace osdn::dist {

/// Cores that this process may run on, rising; never empty.
std::vector<int> usable_cores();

/// "0-3,8": cores as taskset writes them.
std::string cores_text(const std::vector<int>& cores);

struct CoreShare {
  int sharers =
      1;  ///< ranks of this host with the same cores, this one included
  /// Empty, or why the cores are too few for a rank's computation and its
  /// loader, and how to start it otherwise.
  std::string warning;
};

/// Collective.
CoreShare core_share(World& world);

}  // namespace osdn::dist
