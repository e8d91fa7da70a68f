#include "osdn/core/run_main.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string>

namespace osdn {
namespace {

struct Outcome {
  int code = 0;
  std::string printed;  // on stderr
};

Outcome run(const std::function<ExitCode()>& program,
            std::string name = "/usr/bin/osdn-train") {
  char* argv[] = {name.data(), nullptr};
  ::testing::internal::CaptureStderr();
  const int code = run_main(1, argv, [&](int, char**) { return program(); });
  return {code, ::testing::internal::GetCapturedStderr()};
}

TEST(RunMain, success_prints_nothing) {
  const Outcome outcome = run([] { return ExitCode::kOk; });
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.printed, "");
}

TEST(RunMain, passes_the_arguments_and_the_code_through) {
  char program[] = "x";
  char argument[] = "--help";
  char* argv[] = {program, argument, nullptr};
  const int code = run_main(2, argv, [](int argc, char** given) {
    EXPECT_EQ(argc, 2);
    EXPECT_STREQ(given[1], "--help");
    return ExitCode::kNonFinite;
  });
  EXPECT_EQ(code, 4);
}

TEST(RunMain, an_error_is_printed_once_with_the_programs_name) {
  const Outcome outcome = run([]() -> ExitCode {
    throw Error("my.json: it is wrong", ExitCode::kUsage);
  });
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.printed, "osdn-train: error: my.json: it is wrong\n");
}

TEST(RunMain, every_code_arrives) {
  for (const ExitCode code : {ExitCode::kFailure, ExitCode::kUsage,
                              ExitCode::kBadInput, ExitCode::kNonFinite}) {
    const Outcome outcome =
        run([code]() -> ExitCode { throw Error("x", code); });
    EXPECT_EQ(outcome.code, static_cast<int>(code));
  }
}

TEST(RunMain, other_exceptions_are_failures) {
  const Outcome memory = run([]() -> ExitCode { throw std::bad_alloc(); });
  EXPECT_EQ(memory.code, 1);
  EXPECT_NE(memory.printed.find("out of memory"), std::string::npos);

  const Outcome files = run([]() -> ExitCode {
    std::filesystem::rename("/no/such/file", "/no/such/other");
    return ExitCode::kOk;
  });
  EXPECT_EQ(files.code, 1);
  EXPECT_EQ(
      files.printed,
      "osdn-train: error: /no/such/file: No such file or directory (towards "
      "/no/such/other)\n");

  const Outcome standard =
      run([]() -> ExitCode { throw std::runtime_error("odd"); });
  EXPECT_EQ(standard.code, 1);
  EXPECT_EQ(standard.printed, "osdn-train: error: odd\n");

  const Outcome unknown = run([]() -> ExitCode { throw 7; });
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.printed.find("unknown type"), std::string::npos);
}

TEST(RunMain, a_stack_in_a_message_is_left_out) {
  const Outcome outcome = run([]() -> ExitCode {
    throw std::runtime_error(
        "shapes differ\nException raised from f at x.cpp:3\nframe #0: a");
  });
  EXPECT_EQ(outcome.printed, "osdn-train: error: shapes differ\n");
}

TEST(RunMain, works_without_a_name) {
  ::testing::internal::CaptureStderr();
  const int code =
      run_main(0, nullptr, [](int, char**) -> ExitCode { throw Error("x"); });
  EXPECT_EQ(code, 1);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "osdn: error: x\n");
}

TEST(RunMain, a_full_disk_under_stdout_is_an_error) {
  const int full = ::open("/dev/full", O_WRONLY);
  if (full < 0) {
    GTEST_SKIP() << "/dev/full is not here";
  }
  std::fflush(stdout);
  const int kept = ::dup(STDOUT_FILENO);
  ::dup2(full, STDOUT_FILENO);
  const Outcome outcome = run([] {
    std::cout << "a report";
    return ExitCode::kOk;
  });
  std::fflush(stdout);
  ::dup2(kept, STDOUT_FILENO);
  ::close(kept);
  ::close(full);
  std::cout.clear();
  std::clearerr(stdout);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.printed.find("standard output"), std::string::npos);
}

// Standard output is a pipe whose reader has left, as with `| head -n 1`.
Outcome run_unread(const std::function<ExitCode()>& program) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
  ::close(ends[0]);
  std::fflush(stdout);
  const int kept = ::dup(STDOUT_FILENO);
  ::dup2(ends[1], STDOUT_FILENO);
  ::close(ends[1]);
  const Outcome outcome = run(program);
  ::dup2(kept, STDOUT_FILENO);
  ::close(kept);
  std::cout.clear();
  std::clearerr(stdout);
  return outcome;
}

TEST(RunMain, a_reader_that_has_left_is_no_error) {
  for (const bool by_stream : {true, false}) {
    int steps = 0;
    const Outcome outcome = run_unread([&] {
      for (; steps < 3; ++steps) {
        if (by_stream) {
          std::cout << "a report" << std::endl;
        } else {
          std::puts("a report");
          std::fflush(stdout);
        }
      }
      return ExitCode::kBadInput;
    });
    EXPECT_EQ(steps, 3);
    EXPECT_EQ(outcome.code, 3);
    EXPECT_EQ(outcome.printed, "");
  }
  const Outcome wrong = run_unread([]() -> ExitCode {
    std::cout << "a report" << std::endl;
    throw Error("it is wrong", ExitCode::kUsage);
  });
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.printed, "osdn-train: error: it is wrong\n");
}

// What is opened next would take their numbers, and get what is written there.
TEST(RunMain, closed_standard_streams_are_no_files) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int stream : {0, 1, 2}) ::close(stream);
    char name[] = "osdn-train";
    char* argv[] = {name, nullptr};
    ::_exit(run_main(1, argv, [](int, char**) {
      std::cout << "a report" << std::endl;
      return ::open("/dev/null", O_RDONLY) > STDERR_FILENO
                 ? ExitCode::kOk
                 : ExitCode::kBadInput;
    }));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace osdn
