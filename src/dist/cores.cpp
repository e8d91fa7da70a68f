#include "osdn/dist/cores.h"

#include <sched.h>

#include <algorithm>
#include <thread>

#include "osdn/core/concat.h"
#include "osdn/core/log.h"

namespace osdn::dist {

std::vector<int> usable_cores() {
  std::vector<int> cores;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) cores.push_back(core);
    }
  }
  if (cores.empty()) {
    const unsigned count = std::max(1U, std::thread::hardware_concurrency());
    for (unsigned core = 0; core < count; ++core) {
      cores.push_back(static_cast<int>(core));
    }
  }
  return cores;
}

std::string cores_text(const std::vector<int>& cores) {
  std::string text;
  for (std::size_t first = 0; first < cores.size();) {
    std::size_t last = first;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) {
      ++last;
    }
    text += concat(text.empty() ? "" : ",", cores[first]);
    if (last > first) text += concat("-", cores[last]);
    first = last + 1;
  }
  return text;
}

CoreShare core_share(World& world) {
  const std::vector<int> cores = usable_cores();
  const std::string mine = concat(world.place().host, " ", cores_text(cores));
  CoreShare share;
  const std::vector<std::string> all = world.all(mine);
  share.sharers = static_cast<int>(std::count(all.begin(), all.end(), mine));
  share.cores = std::max<std::int64_t>(1, std::ssize(cores) / share.sharers);
  if (!world.place().alone() && cores.size() == 1 &&
      std::thread::hardware_concurrency() > 1) {
    share.warning = concat(
        "rank ", world.place().rank, " is bound to core ", cores_text(cores),
        " of host ", world.place().host,
        ", which its loader has to share; start it with mpirun --bind-to none, "
        "or with several cores a rank: mpirun --map-by slot:PE=4, srun "
        "--cpus-per-task=4");
  }
  return share;
}

std::int64_t take_cores(World& world) {
  const CoreShare share = core_share(world);
  for (const std::string& warning : world.all(share.warning)) {
    if (!warning.empty()) log::warn(warning);
  }
  return share.cores;
}

}  // namespace osdn::dist
