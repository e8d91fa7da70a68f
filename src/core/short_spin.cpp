#include "osdn/core/short_spin.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "osdn/core/env.h"

namespace osdn {

void restart_with_short_spin(char** argv) {
  if (env("GOMP_SPINCOUNT") || env("OMP_WAIT_POLICY")) {
    // A second start would be called "exe" in lists of processes.
    const std::string name = std::filesystem::path(argv[0]).filename();
    ::prctl(PR_SET_NAME, name.c_str());
    return;
  }
  if (::setenv("GOMP_SPINCOUNT", "1000", 0) == 0) {
    ::execv("/proc/self/exe", argv);
  }
}

}  // namespace osdn
