#include "osdn/checkpoint/run_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "checkpoint/sample_checkpoint.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "support/temp_dir.h"

namespace osdn::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A folder as a run leaves it behind, and a file of the user's.
class RunDir : public testing::Test {
 protected:
  RunDir() {
    fs::create_directories(run_);
    write_file_atomic(run_ / kStepLogName, "{\"step\":1}\n");
    write_file_atomic(run_ / kConfigName, "{}\n");
    write_file_atomic(run_ / "notes.txt", "mine\n");
    CheckpointStore store(run_ / kCheckpointFolder);
    test::save(store, 100);
  }
  const osdn::test::TempDir dir_;
  const fs::path run_ = dir_ / "run";
};

TEST_F(RunDir, C4_a_new_run_in_the_folder_of_an_older_one_is_refused) {
  try {
    check_run_dir(run_, RunDirMode::kNew);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr(run_.string()));
    EXPECT_THAT(error.what(), HasSubstr("checkpoints, log.jsonl"));
    EXPECT_THAT(error.what(), HasSubstr("resume"));
    EXPECT_THAT(error.what(), HasSubstr("overwrite"));
  }
}

TEST_F(RunDir, C4_log_or_checkpoints_alone_are_an_older_run_too) {
  fs::remove(run_ / kStepLogName);
  EXPECT_THROW(check_run_dir(run_, RunDirMode::kNew), Error);
  write_file_atomic(run_ / kStepLogName, "{\"step\":1}\n");
  fs::remove_all(run_ / kCheckpointFolder);
  EXPECT_THROW(check_run_dir(run_, RunDirMode::kNew), Error);
}

TEST_F(RunDir, C4_resume_leaves_everything_where_it_is) {
  const RunDirState state = check_run_dir(run_, RunDirMode::kResume);
  EXPECT_TRUE(state.holds_run);
  EXPECT_FALSE(state.moved_to.has_value());
  EXPECT_TRUE(fs::exists(run_ / kStepLogName));
}

TEST_F(RunDir, C4_overwrite_moves_the_older_run_aside_and_loses_nothing) {
  const RunDirState state = check_run_dir(run_, RunDirMode::kOverwrite);
  EXPECT_FALSE(state.holds_run);
  ASSERT_TRUE(state.moved_to.has_value());
  EXPECT_EQ(read_file(*state.moved_to / kStepLogName), "{\"step\":1}\n");
  EXPECT_EQ(read_file(*state.moved_to / kConfigName), "{}\n");
  const CheckpointStore old(*state.moved_to / kCheckpointFolder);
  EXPECT_EQ(old.find_latest().found->step(), 100);
  EXPECT_EQ(read_file(run_ / "notes.txt"), "mine\n");
  // A resume finds nothing of it.
  EXPECT_FALSE(check_run_dir(run_, RunDirMode::kResume).holds_run);
  const CheckpointStore store(run_ / kCheckpointFolder);
  EXPECT_FALSE(store.find_latest().found.has_value());
  // And again, within the same second.
  write_file_atomic(run_ / kStepLogName, "{\"step\":2}\n");
  const RunDirState again = check_run_dir(run_, RunDirMode::kOverwrite);
  EXPECT_NE(again.moved_to, state.moved_to);
  EXPECT_EQ(read_file(*state.moved_to / kStepLogName), "{\"step\":1}\n");
}

TEST_F(RunDir, an_empty_or_missing_folder_takes_any_mode) {
  for (const RunDirMode mode :
       {RunDirMode::kNew, RunDirMode::kResume, RunDirMode::kOverwrite}) {
    const osdn::test::TempDir empty;
    EXPECT_FALSE(check_run_dir(empty.path(), mode).holds_run);
    EXPECT_FALSE(check_run_dir(empty / "a/b", mode).holds_run);
    EXPECT_TRUE(fs::is_directory(empty / "a/b"));
    const RunLock lock(empty / "a/b");
    EXPECT_FALSE(check_run_dir(empty / "a/b", mode).holds_run);
  }
}

TEST_F(RunDir, a_second_trainer_is_told_who_holds_the_folder) {
  const RunLock lock(run_);
  try {
    const RunLock second(run_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(),
                HasSubstr("process " + std::to_string(::getpid()) + " on "));
  }
}

TEST_F(RunDir, the_lock_ends_with_its_holder_however_that_ends) {
  { const RunLock lock(run_); }
  { const RunLock lock(run_); }
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const RunLock lock(run_);
    ::write(ready[1], "x", 1) == 1 ? ::pause() : 0;
    ::_exit(1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THROW(RunLock{run_}, Error);
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_NO_THROW(RunLock{run_});
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace osdn::checkpoint
