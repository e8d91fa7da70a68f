#include "osdn/core/log.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "osdn/core/error.h"

namespace osdn {
namespace {

using Lines = std::vector<std::pair<log::Level, std::string>>;

// Restores the level that a test changed.
class Log : public ::testing::Test {
 protected:
  void TearDown() override {
    log::set_level(log::Level::kInfo);
    log::set_before_write({});
  }
};

TEST_F(Log, levels_by_name) {
  EXPECT_EQ(log::level_from_name("debug"), log::Level::kDebug);
  EXPECT_EQ(log::level_from_name("error"), log::Level::kError);
  EXPECT_THROW(log::level_from_name("loud"), Error);
}

TEST_F(Log, messages_below_the_level_are_dropped) {
  Lines lines;
  const log::Capture capture([&](log::Level level, std::string_view text) {
    lines.emplace_back(level, text);
  });
  log::debug("dropped");
  log::info("step ", 3);
  log::set_level(log::Level::kWarn);
  log::info("dropped");
  log::warn("odd: ", 0.5);
  log::error("bad");
  log::set_level(log::Level::kDebug);
  log::debug("seen");
  EXPECT_EQ(lines, (Lines{{log::Level::kInfo, "step 3"},
                          {log::Level::kWarn, "odd: 0.5"},
                          {log::Level::kError, "bad"},
                          {log::Level::kDebug, "seen"}}));
}

TEST_F(Log, captures_nest) {
  std::vector<std::string> outer;
  std::vector<std::string> inner;
  const log::Capture first(
      [&](log::Level, std::string_view text) { outer.emplace_back(text); });
  {
    const log::Capture second(
        [&](log::Level, std::string_view text) { inner.emplace_back(text); });
    log::info("in");
  }
  log::info("out");
  EXPECT_EQ(outer, (std::vector<std::string>{"out"}));
  EXPECT_EQ(inner, (std::vector<std::string>{"in"}));
}

TEST_F(Log, O3_plain_lines_when_stderr_is_no_terminal) {
  ::testing::internal::CaptureStderr();
  log::info("one {} %s");
  log::warn("two");
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_TRUE(
      std::regex_match(text, std::regex(R"(\d\d:\d\d:\d\d info one \{\} %s\n)"
                                        R"(\d\d:\d\d:\d\d warning two\n)")))
      << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST_F(Log, O3_each_line_is_there_at_once) {
  ::testing::internal::CaptureStderr();
  log::info("first");
  // Read without closing: what is buffered would be missing.
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("first\n"), std::string::npos);
}

TEST_F(Log, the_hook_runs_before_each_line) {
  int calls = 0;
  log::set_before_write([&] { ++calls; });
  ::testing::internal::CaptureStderr();
  log::info("a");
  log::debug("dropped");
  log::info("b");
  ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(calls, 2);
}

TEST_F(Log, threads_do_not_tear_lines) {
  ::testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 50; ++i) {
        log::info("whole line ", i);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const std::string text = ::testing::internal::GetCapturedStderr();
  const std::regex line(R"(\d\d:\d\d:\d\d info whole line \d+)");
  std::istringstream lines(text);
  std::string one;
  int count = 0;
  while (std::getline(lines, one)) {
    EXPECT_TRUE(std::regex_match(one, line)) << one;
    ++count;
  }
  EXPECT_EQ(count, 200);
}

}  // namespace
}  // namespace osdn
