#include "osdn/report/live_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "osdn/core/log.h"
#include "support/captured_stdout.h"

namespace osdn::report {
namespace {

using test::captured_stdout;
using test::StdoutKind;

const LiveLineOptions kEveryOne = {.terminal_interval_s = 0};

void two_statuses_and_a_line() {
  LiveLine line(kEveryOne);
  line.show("first");
  line.show("second");
  line.print("stays");
  line.show("third");
  line.finish();
}

TEST(LiveLine, O3_a_pipe_gets_plain_lines_without_control_codes) {
  EXPECT_EQ(captured_stdout(StdoutKind::kPipe, two_statuses_and_a_line),
            "first\nsecond\nstays\nthird\n");
}

TEST(LiveLine, O3_a_dumb_terminal_gets_plain_lines_too) {
  EXPECT_EQ(captured_stdout(StdoutKind::kTerminal,
                            [] {
                              ::setenv("TERM", "dumb", 1);
                              two_statuses_and_a_line();
                            }),
            "first\nsecond\nstays\nthird\n");
}

TEST(LiveLine, O3_control_characters_of_a_label_do_not_reach_a_pipe) {
  EXPECT_EQ(captured_stdout(StdoutKind::kPipe,
                            [] {
                              LiveLine line(kEveryOne);
                              line.show("a\x1b[2Jb\rc\nd\te");
                            }),
            "a [2Jb c d e\n");
}

TEST(LiveLine, O3_each_line_is_flushed_before_the_next_call) {
  // No finish() and no destructor: the process is killed inside the body.
  EXPECT_EQ(captured_stdout(StdoutKind::kPipe,
                            [] {
                              auto* line = new LiveLine(kEveryOne);
                              line->show("seen");
                              ::kill(::getpid(), SIGKILL);
                            }),
            "seen\n");
}

TEST(LiveLine, O3_a_terminal_is_redrawn_in_place) {
  EXPECT_EQ(captured_stdout(StdoutKind::kTerminal, two_statuses_and_a_line),
            "\rfirst\x1b[K\rsecond\x1b[K\r\x1b[Kstays\n\rthird\x1b[K\n");
}

TEST(LiveLine, stays_within_the_terminal) {
  const std::string out = captured_stdout(
      StdoutKind::kTerminal,
      [] {
        LiveLine line(kEveryOne);
        line.show("0123456789abcdef");
      },
      10);
  EXPECT_EQ(out, "\r012345678\x1b[K\n");
}

TEST(LiveLine, redraws_no_more_often_than_asked_but_shows_the_last) {
  const auto body = [] {
    LiveLine line({.terminal_interval_s = 60, .plain_interval_s = 60});
    line.show("first");
    line.show("too soon");
    line.show("last");
  };
  EXPECT_EQ(captured_stdout(StdoutKind::kTerminal, body),
            "\rfirst\x1b[K\rlast\x1b[K\n");
  EXPECT_EQ(captured_stdout(StdoutKind::kPipe, body), "first\nlast\n");
}

TEST(LiveLine, wipes_itself_before_a_log_line) {
  EXPECT_EQ(captured_stdout(StdoutKind::kTerminal,
                            [] {
                              LiveLine line({.terminal_interval_s = 60});
                              line.show("status");
                              ::dup2(STDOUT_FILENO, STDERR_FILENO);
                              ::setenv("NO_COLOR", "1", 1);
                              log::set_level(log::Level::kInfo);
                              log::info("message");
                              line.show("status again");
                            })
                .find("\rstatus\x1b[K\r\x1b[K"),
            0U);
}

TEST(LiveLine, a_log_line_does_not_delay_the_next_status) {
  const std::string out = captured_stdout(StdoutKind::kTerminal, [] {
    LiveLine line({.terminal_interval_s = 60});
    line.show("status");
    log::set_level(log::Level::kInfo);
    log::info("a log line that is expected here");
    line.show("again");
  });
  EXPECT_EQ(out, "\rstatus\x1b[K\r\x1b[K\ragain\x1b[K\n");
}

TEST(FitLine, counts_code_points_not_bytes) {
  EXPECT_EQ(fit_line("äöü", 2), "äö");
  EXPECT_EQ(fit_line("äöü", 3), "äöü");
  EXPECT_EQ(fit_line("abc", 0), "");
}

}  // namespace
}  // namespace osdn::report
