// C1: a save that is killed leaves a sound checkpoint to go on from, wherever
// the kill fell.

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/sample_checkpoint.h"
#include "osdn/checkpoint/checkpoint_store.h"
#include "support/temp_dir.h"

namespace osdn::checkpoint {
namespace {

using osdn::test::TempDir;
using test::find_mixture;
using test::names_in;
using test::SampleCheckpoint;
using test::save;

// Saves `step` in a child process and kills it at its `stop`-th halt: the
// kernel stops it before and after each system call. Returns false when the
// child got to its end before that.
bool save_until_stop(const std::filesystem::path& folder, std::int64_t step,
                     int stop, bool& can_trace) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) {
      ::_exit(77);
    }
    ::raise(SIGSTOP);
    CheckpointStore store(folder, {.keep_last = 1});
    SampleCheckpoint sample(step, 10);
    ::_exit(store.save(step, sample.parts()).saved() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  can_trace = WIFSTOPPED(status);
  for (int halt = 0; can_trace && WIFSTOPPED(status); ++halt) {
    if (halt == stop) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return true;
    }
    ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
    ::waitpid(child, &status, 0);
  }
  return false;
}

TEST(KilledSave, C1_between_any_two_file_operations) {
  const TempDir dir(TempDir::memory());
  int stop = 0;
  int old_found = 0;
  int new_found = 0;
  for (bool killed = true; killed; ++stop) {
    const auto folder = dir / std::to_string(stop);
    CheckpointStore store(folder, {.keep_last = 1});
    save(store, 100);
    bool can_trace = false;
    killed = save_until_stop(folder, 200, stop, can_trace);
    if (!can_trace) {
      GTEST_SKIP() << "this machine does not let a process trace its child";
    }
    const LatestCheckpoint latest = store.find_latest();
    ASSERT_TRUE(latest.found.has_value()) << "killed at halt " << stop;
    ASSERT_TRUE(latest.passed_over.empty()) << latest.passed_over[0].reason;
    ASSERT_EQ(find_mixture(*latest.found), "") << "killed at halt " << stop;
    // A folder with a checkpoint's name is whole, half-deleted ones included.
    for (const std::int64_t step : store.steps()) {
      ASSERT_NO_THROW(store.open(step)) << "killed at halt " << stop;
    }
    (latest.found->step() == 100 ? old_found : new_found) += 1;
    // What the kill left behind is gone after the next save.
    save(store, 300);
    ASSERT_EQ(names_in(folder), std::vector<std::string>{"step_000000300"})
        << "killed at halt " << stop;
    std::filesystem::remove_all(folder);
  }
  // The kills fell on both sides of the rename, and there were many.
  EXPECT_GT(old_found, 50);
  EXPECT_GT(new_found, 5);
}

TEST(KilledSave, C1_at_random_moments_nothing_that_was_reported_saved_is_lost) {
  const TempDir dir;
  CheckpointStore store(dir / "checkpoints", {.keep_last = 2});
  std::mt19937 random(11);
  std::int64_t next = 1;
  for (int round = 0; round < 40; ++round) {
    int reports[2];
    ASSERT_EQ(::pipe(reports), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      for (std::int64_t step = next;; ++step) {
        SampleCheckpoint sample(step, 20000);
        if (!store.save(step, sample.parts()).saved() ||
            ::write(reports[1], &step, sizeof(step)) != sizeof(step)) {
          ::_exit(1);
        }
      }
    }
    ::close(reports[1]);
    ::usleep(1000 + random() % 60000);
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    std::int64_t reported = next - 1;
    while (::read(reports[0], &reported, sizeof(reported)) > 0) {
    }
    ::close(reports[0]);

    const LatestCheckpoint latest = store.find_latest();
    ASSERT_TRUE(latest.passed_over.empty()) << latest.passed_over[0].reason;
    if (reported == 0 && !latest.found.has_value()) {
      continue;
    }
    ASSERT_TRUE(latest.found.has_value());
    ASSERT_EQ(find_mixture(*latest.found), "");
    ASSERT_GE(latest.found->step(), reported);
    ASSERT_LE(latest.found->step(), reported + 1);
    next = latest.found->step() + 1;
  }
  EXPECT_GT(next, 1);
  save(store, next);
  EXPECT_LE(names_in(store.folder()).size(), 2U);
}

}  // namespace
}  // namespace osdn::checkpoint
