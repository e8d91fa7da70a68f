#include "osdn/dist/launcher.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "osdn/core/concat.h"

namespace osdn::dist {

namespace {

std::atomic<pid_t> launcher{0};

}  // namespace

void remember_launcher() {
  launcher = ::getppid();
  ::setenv("OMPI_MCA_mpi_abort_delay", "2", 0);
}

std::string launcher_trouble() {
  const pid_t known = launcher;
  if (known == 0 || ::getppid() == known) return "";
  return concat("its launcher (process ", known, ") has ended, killed perhaps");
}

}  // namespace osdn::dist
