#include "osdn/core/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

namespace osdn {
namespace {

// Puts another descriptor in the place of stdout while it lives.
class StdoutIs {
 public:
  explicit StdoutIs(int descriptor) {
    std::fflush(stdout);
    kept_ = ::dup(STDOUT_FILENO);
    ::dup2(descriptor, STDOUT_FILENO);
  }
  ~StdoutIs() {
    std::fflush(stdout);
    ::dup2(kept_, STDOUT_FILENO);
    ::close(kept_);
  }
  StdoutIs(const StdoutIs&) = delete;
  StdoutIs& operator=(const StdoutIs&) = delete;

 private:
  int kept_;
};

TEST(Terminal, O3_a_pipe_is_none) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  {
    const StdoutIs pipe(ends[1]);
    EXPECT_FALSE(is_terminal(Stream::kStdout));
    EXPECT_EQ(terminal_width(Stream::kStdout, 77), 77);
  }
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Terminal, a_pseudo_terminal_is_one) {
  const int controller = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (controller < 0 || ::grantpt(controller) != 0 ||
      ::unlockpt(controller) != 0) {
    GTEST_SKIP() << "no pseudo-terminals here";
  }
  const int terminal = ::open(::ptsname(controller), O_RDWR | O_NOCTTY);
  ASSERT_GE(terminal, 0);
  winsize size{};
  size.ws_col = 123;
  ASSERT_EQ(::ioctl(terminal, TIOCSWINSZ, &size), 0);
  bool seen = false;
  bool dumb = true;
  int width = 0;
  {
    const StdoutIs replaced(terminal);
    ::setenv("TERM", "xterm", 1);
    seen = is_terminal(Stream::kStdout);
    width = terminal_width(Stream::kStdout);
    ::setenv("TERM", "dumb", 1);
    dumb = is_terminal(Stream::kStdout);
    ::unsetenv("TERM");
  }
  ::close(terminal);
  ::close(controller);
  EXPECT_TRUE(seen);
  EXPECT_FALSE(dumb);
  EXPECT_EQ(width, 123);
}

}  // namespace
}  // namespace osdn
