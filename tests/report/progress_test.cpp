#include "osdn/report/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "support/captured_stdout.h"

namespace osdn::report {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

TEST(FormatProgress, count_total_rate_and_time_left) {
  const ProgressOptions options = {
      .label = "tokenize", .unit = "B", .total = 10000000};
  EXPECT_EQ(format_progress(options, 2500000, 100000.0, "1 of 4 files"),
            "tokenize 25.0% 2.50M/10.0MB, 1 of 4 files, 100kB/s, 1:15 left");
}

TEST(FormatProgress, what_is_not_known_is_left_out) {
  const ProgressOptions options = {.label = "read", .unit = " tokens"};
  EXPECT_EQ(format_progress(options, 1500, std::nullopt, ""),
            "read 1.50k tokens");
  EXPECT_EQ(format_progress(options, 1500, 10.0, ""),
            "read 1.50k tokens, 10 tokens/s");
}

TEST(FormatProgress, no_time_left_when_nothing_moves_or_all_is_done) {
  const ProgressOptions options = {.label = "x", .unit = "B", .total = 100};
  EXPECT_THAT(format_progress(options, 50, 0.0, ""), Not(HasSubstr("left")));
  EXPECT_THAT(format_progress(options, 100, 5.0, ""), Not(HasSubstr("left")));
}

TEST(Progress, O3_plain_lines_in_a_pipe_end_with_the_summary) {
  const std::string out = test::captured_stdout(test::StdoutKind::kPipe, [] {
    Progress progress(
        {.label = "work", .unit = "B", .total = 3000, .plain_interval_s = 0});
    progress.add(1000);
    progress.add(2000);
    progress.finish();
  });
  EXPECT_EQ(out.find('\r'), std::string::npos);
  EXPECT_EQ(out.find('\x1b'), std::string::npos);
  EXPECT_THAT(out, MatchesRegex("work 33.3% 1.00k/3.00kB.*\n"
                                "work 100.0% 3.00k/3.00kB.*\n"
                                "work 3.00kB in 0:00.*\n"));
}

TEST(Progress, a_summary_is_the_last_line_even_when_a_status_was_kept_back) {
  const std::string out = test::captured_stdout(test::StdoutKind::kPipe, [] {
    Progress progress(
        {.label = "work", .unit = "B", .total = 2, .plain_interval_s = 60});
    progress.add(1);
    progress.add(1);
    progress.finish();
  });
  EXPECT_THAT(out, MatchesRegex("work 50.0% [^\n]*\nwork 2B in [^\n]*\n"));
}

TEST(Progress, a_short_job_that_is_to_be_quiet_has_its_summary_only) {
  const std::string out = test::captured_stdout(test::StdoutKind::kPipe, [] {
    Progress progress({.label = "work", .total = 2, .quiet_s = 60});
    progress.add(1);
    progress.add(1);
    progress.finish();
  });
  EXPECT_THAT(out, MatchesRegex("work 2 in [^\n]*\n"));
}

TEST(Progress, counts_from_many_threads) {
  std::int64_t count = 0;
  testing::internal::CaptureStdout();
  {
    Progress progress({.label = "work", .unit = "", .plain_interval_s = 60});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&progress] {
        for (int i = 0; i < 1000; ++i) {
          progress.add(1);
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    count = progress.count();
  }
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(count, 4000);
}

}  // namespace
}  // namespace osdn::report
