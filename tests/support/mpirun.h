#pragma once
// Ranks on this machine's CPU, started by mpirun.

#include <cstdlib>
#include <string>
#include <vector>

namespace osdn::test {

inline constexpr const char* kMpirun = "/usr/bin/mpirun";

/// What mpirun and the ranks that it starts need of the environment.
inline void prepare_mpirun() {
  // For root in a container; others need it not.
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  // Open MPI does not free all that it takes, which a build with sanitizers
  // would report as a failure of each rank.
  ::setenv("LSAN_OPTIONS", "detect_leaks=0", 1);
}

/// The command line up to the program.
inline std::vector<std::string> mpirun(int ranks) {
  return {kMpirun, "--oversubscribe",    "--bind-to", "none",
          "-n",    std::to_string(ranks)};
}

}  // namespace osdn::test
