#pragma once
// What a function writes to standard output when that is a pipe or a terminal.

#include <pty.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace osdn::test {

enum class StdoutKind { kPipe, kTerminal };

/// Runs `body` in a child process and returns the bytes of its standard output.
/// The child ends by SIGKILL right after `body`, so bytes that nobody flushed
/// are missing. The terminal is `columns` wide and translates nothing.
template <typename Body>
std::string captured_stdout(StdoutKind kind, const Body& body,
                            unsigned short columns = 80) {
  int ends[2] = {-1, -1};
  if (kind == StdoutKind::kPipe) {
    if (::pipe(ends) != 0) {
      throw std::runtime_error("pipe failed");
    }
  } else {
    termios modes{};
    ::cfmakeraw(&modes);
    winsize size{};
    size.ws_row = 24;
    size.ws_col = columns;
    if (::openpty(&ends[0], &ends[1], nullptr, &modes, &size) != 0) {
      throw std::runtime_error("openpty failed");
    }
  }
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child < 0) {
    throw std::runtime_error("fork failed");
  }
  if (child == 0) {
    ::setenv("TERM", "xterm", 1);
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    body();
    ::kill(::getpid(), SIGKILL);
  }
  ::close(ends[1]);
  std::string out;
  char buffer[4096];
  // A terminal whose other end is closed reads as an error, not as an end.
  for (ssize_t got = 0; (got = ::read(ends[0], buffer, sizeof(buffer))) > 0;) {
    out.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  return out;
}

}  // namespace osdn::test
