#include "osdn/train/stop_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include "osdn/core/error.h"

namespace osdn::train {
namespace {

TEST(StopRequest, P5_SIGTERM_and_SIGINT_ask_to_stop) {
  for (const int number : {SIGTERM, SIGINT}) {
    const StopRequest request;
    EXPECT_FALSE(request.stop());
    ::raise(number);
    EXPECT_EQ(request.stop(), number == SIGTERM ? "SIGTERM" : "SIGINT");
    ::raise(SIGTERM);  // a launcher that repeats itself changes nothing
    EXPECT_TRUE(request.stop());
  }
}

TEST(StopRequest, P5_SIGHUP_asks_to_stop_unless_it_was_ignored) {
  const auto before = std::signal(SIGHUP, SIG_DFL);
  {
    const StopRequest request;
    ::raise(SIGHUP);
    EXPECT_EQ(request.stop(), "SIGHUP");
  }
  std::signal(SIGHUP, SIG_IGN);
  {
    const StopRequest request;
    ::raise(SIGHUP);
    EXPECT_FALSE(request.stop());
  }
  std::signal(SIGHUP, before);
}

TEST(StopRequest, P5_SIGUSR1_asks_to_save_and_go_on) {
  StopRequest request;
  EXPECT_FALSE(request.take_save());
  ::raise(SIGUSR1);
  EXPECT_TRUE(request.take_save());
  EXPECT_FALSE(request.take_save());
  EXPECT_FALSE(request.stop());
}

TEST(StopRequest, P5_a_second_SIGINT_ends_the_process_at_once) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const StopRequest request;
    ::raise(SIGINT);
    if (!request.stop()) ::_exit(1);
    ::raise(SIGINT);
    ::_exit(2);  // still alive
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << WEXITSTATUS(status);
  EXPECT_EQ(WTERMSIG(status), SIGINT);
}

TEST(StopRequest, P5_signals_from_before_the_handlers_stood_are_not_lost) {
  hold_stop_signals();
  ::raise(SIGUSR1);
  ::raise(SIGTERM);
  StopRequest request;
  EXPECT_EQ(request.stop(), "SIGTERM");
  EXPECT_TRUE(request.take_save());
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 0);
}

TEST(StopRequest, the_handlers_of_before_come_back) {
  struct sigaction before {};
  ::sigaction(SIGTERM, nullptr, &before);
  { const StopRequest request; }
  struct sigaction after {};
  ::sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

TEST(StopRequest, a_time_limit_asks_when_it_has_passed) {
  const StopRequest request(0.05);
  EXPECT_FALSE(request.stop());
  EXPECT_GT(*request.seconds_left(), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(80));
  ASSERT_TRUE(request.stop());
  EXPECT_THAT(*request.stop(), testing::HasSubstr("--stop-after"));
  EXPECT_LT(*request.seconds_left(), 0);
}

TEST(ParseDuration, knows_seconds_minutes_and_hours) {
  EXPECT_EQ(parse_duration("90"), 90);
  EXPECT_EQ(parse_duration("90s"), 90);
  EXPECT_EQ(parse_duration("1.5m"), 90);
  EXPECT_EQ(parse_duration("15m"), 900);
  EXPECT_EQ(parse_duration("1h30m5s"), 5405);
}

TEST(ParseDuration, refuses_everything_else_with_the_forms) {
  for (const char* bad : {"", "m", "-5", "5d", "5 m", "inf", "nan", "5mm"}) {
    try {
      parse_duration(bad);
      ADD_FAILURE() << "accepted \"" << bad << "\"";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage);
      EXPECT_THAT(error.what(), testing::HasSubstr("1h30m"));
    }
  }
}

TEST(StopRequest, P5_the_schedulers_time_limit_stops_in_time) {
  ::unsetenv("SLURM_JOB_END_TIME");
  EXPECT_THROW(seconds_until_limit(60), Error);
  ::setenv("SLURM_JOB_END_TIME", "soon", 1);
  EXPECT_THROW(seconds_until_limit(60), Error);
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
  ::setenv("SLURM_JOB_END_TIME", std::to_string(now.count() + 100).c_str(), 1);
  EXPECT_NEAR(seconds_until_limit(60), 40, 5);
  ::unsetenv("SLURM_JOB_END_TIME");
  EXPECT_FALSE(StopRequest(1000.0, 900.0).stop());
  EXPECT_LT(*StopRequest(1000.0, 900.0).seconds_left(), 901);
  EXPECT_EQ(StopRequest({}, -1.0).stop().value_or(""),
            "--signal-before the scheduler's time limit");
}

}  // namespace
}  // namespace osdn::train
