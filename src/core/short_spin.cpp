#include "osdn/core/short_spin.h"

#include <unistd.h>

#include <cstdlib>

#include "osdn/core/env.h"

namespace osdn {

void restart_with_short_spin(char** argv) {
  if (env("GOMP_SPINCOUNT") || env("OMP_WAIT_POLICY")) {
    return;
  }
  if (::setenv("GOMP_SPINCOUNT", "1000", 0) == 0) {
    ::execv("/proc/self/exe", argv);
  }
}

}  // namespace osdn
