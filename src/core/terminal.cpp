#include "osdn/core/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "osdn/core/env.h"

namespace osdn {

namespace {

int descriptor_of(Stream stream) {
  return stream == Stream::kStdout ? STDOUT_FILENO : STDERR_FILENO;
}

}  // namespace

bool is_terminal(Stream stream) {
  // Open MPI's mpirun puts a pseudo-terminal before a log file or a pipe.
  return isatty(descriptor_of(stream)) == 1 && env("TERM") != "dumb" &&
         !env("OMPI_COMM_WORLD_RANK");
}

int terminal_width(Stream stream, int fallback) {
  winsize size{};
  if (!is_terminal(stream) ||
      ioctl(descriptor_of(stream), TIOCGWINSZ, &size) != 0 ||
      size.ws_col == 0) {
    return fallback;
  }
  return size.ws_col;
}

}  // namespace osdn
