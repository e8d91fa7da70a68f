// Runs of several ranks: what ends one of them ends all, and signals.

#include <gmock/gmock.h>

#include "osdn/core/concat.h"
#include "osdn/core/file.h"
#include "train/ranks.h"

namespace osdn::train {
namespace {

namespace fs = std::filesystem;
using test::kMpirun;
using test::Program;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

using RanksEnd = test::RanksTest;

TEST_F(RanksEnd, P2_an_exception_on_one_rank_ends_all_and_is_named) {
  Program program(poisoned(3, "2", "9", "throw"));
  EXPECT_NE(program.wait(), 0);
  EXPECT_THAT(program.err(),
              AllOf(HasSubstr("error: this rank was told to fail"),
                    HasSubstr("rank 2 (host"), HasSubstr("told to fail")));
  // That of step 8 may be cut off while it is written.
  EXPECT_THAT(tiny.saved_steps(), testing::Contains(4));
}

TEST_F(RanksEnd, P2_a_rank_that_hangs_ends_all_in_time_and_is_named) {
  tiny.json["dist"]["timeout_s"] = 4;
  Program program(poisoned(3, "1", "9", "hang"));
  EXPECT_NE(program.wait(), 0);
  EXPECT_THAT(program.err(),
              AllOf(HasSubstr("rank 1 (host"), HasSubstr("step 9")));
  // That of step 8 may be cut off while it is written.
  EXPECT_THAT(tiny.saved_steps(), testing::Contains(4));
}

// A disk that does not answer (a file server that is gone) while the last save
// is waited for.
TEST_F(RanksEnd,
       P2_a_save_that_hangs_on_one_rank_ends_all_in_time_and_is_named) {
  tiny.json["dist"]["timeout_s"] = 4;
  for (const char* rank : {"0", "1"}) {
    fs::remove_all(tiny.run_dir());
    Program program(poisoned(2, rank, "12", "dead_disk"));
    const auto start = std::chrono::steady_clock::now();
    EXPECT_NE(program.wait(), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::seconds(60));
    EXPECT_THAT(program.err(),
                AllOf(HasSubstr(concat("rank ", rank, " (host")),
                      HasSubstr("the save of step 12 has not moved for 4 s"),
                      HasSubstr("syncing " + tiny.run_dir().string())));
    EXPECT_THAT(tiny.saved_steps(), testing::Contains(4));
    EXPECT_THAT(tiny.saved_steps(), Not(testing::Contains(12)));
  }
}

// Two files of 1.5 s each take longer than the 2 s, but neither does.
TEST_F(RanksEnd, a_save_that_is_slow_but_moves_is_waited_for) {
  tiny.json["dist"]["timeout_s"] = 2;
  tiny.json["checkpoint"]["every"] = 0;
  Program program(poisoned(2, "1", "12", "slow_disk"));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_GT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  EXPECT_THAT(tiny.saved_steps(), testing::ElementsAre(12));
}

TEST_F(RanksEnd, a_save_that_hangs_is_said_by_one_rank_alone) {
  tiny.json["dist"]["timeout_s"] = 1;
  tiny.json["checkpoint"]["every"] = 0;
  Program program({OSDN_BIN_DIR "/../tests/poisoned_rank",
                   tiny.config_file().string(), tiny.run_dir().string(), "0",
                   "12", "slow_disk"});
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.err(),
              HasSubstr("the save of step 12 has not moved for 1 s"));
  EXPECT_THAT(tiny.saved_steps(), testing::ElementsAre(12));
}

TEST_F(RanksEnd, P1_a_nan_on_one_rank_is_skipped_by_all_in_the_same_step) {
  Program program(poisoned(3, "1", "5", "nan"));
  EXPECT_EQ(program.wait(), 0) << program.err();
  const auto log = tiny.log();
  ASSERT_EQ(log.size(), 12U);
  for (const report::StepRecord& record : log) {
    EXPECT_EQ(record.skipped, record.step == 5) << record.step;
  }
  EXPECT_THAT(program.err(), HasSubstr("gradient norm is nan"));
}

TEST_F(RanksEnd, P2_a_killed_rank_ends_all_and_is_named) {
  const std::string err = after_step_45(
      3, [&](Program&) { ::kill(processes("run").at(1), SIGKILL); });
  EXPECT_THAT(err, HasSubstr("rank 1 (host"));
  EXPECT_THAT(err, HasSubstr("was killed or crashed"));
}

TEST_F(RanksEnd, P2_a_killed_first_rank_ends_all_and_is_named) {
  const std::string err = after_step_45(
      3, [&](Program&) { ::kill(processes("run").at(0), SIGKILL); });
  EXPECT_THAT(err, HasSubstr("rank 0 (host"));
}

// What is on standard error goes to the launcher, and nowhere without it.
TEST_F(RanksEnd, P2_a_killed_launcher_ends_all_and_the_run_folder_says_why) {
  for (const int ranks : {1, 3}) {
    fs::remove_all(tiny.run_dir());
    after_step_45(ranks, [&](Program& program) {
      program.signal(SIGKILL);
      for (int i = 0; i < 400 && !processes("run").empty(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    });
    EXPECT_THAT(
        read_file(tiny.run_dir() / "failures.log"),
        AllOf(HasSubstr("osdn-train: error: rank "),
              HasSubstr("its launcher (process "), HasSubstr("has ended")));
  }
}

TEST_F(RanksEnd, P2_a_stopped_rank_ends_all_in_time_and_is_named) {
  tiny.json["dist"]["timeout_s"] = 4;
  pid_t stopped = 0;
  const std::string err = after_step_45(2, [&](Program& program) {
    stopped = processes("run").at(1);
    ::kill(stopped, SIGSTOP);
    program.wait();
    ::kill(stopped, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  });
  EXPECT_THAT(
      err, AllOf(HasSubstr("rank 1 (host"), HasSubstr("gave no sign of life")));
}

TEST_F(RanksEnd, P5_a_signal_to_one_rank_saves_once_and_ends_all_well) {
  make_long();
  Program program(command(3, "run"));
  ASSERT_TRUE(reached(program, "run", 5)) << program.err();
  ::kill(processes("run").at(2), SIGTERM);
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.err(), HasSubstr("stopped by SIGTERM after step"));
  EXPECT_EQ(tiny.saved_steps().back(), tiny.log().back().step);
}

// While the last save is written, which takes rank 0 1.5 s a file.
TEST_F(RanksEnd, a_second_signal_in_the_last_save_leaves_a_sound_checkpoint) {
  make_long();
  tiny.json["checkpoint"]["every"] = 10;
  for (const int second : {SIGINT, SIGTERM}) {
    fs::remove_all(tiny.run_dir());
    Program program(poisoned(2, "0", "35", "slow_disk"));
    ASSERT_TRUE(reached(program, "run", 36)) << program.err();
    const std::vector<pid_t> ranks = processes("run", "poisoned_rank");
    ASSERT_EQ(ranks.size(), 2U);
    const auto signal = [&](int number) {
      for (const pid_t rank : ranks) ::kill(rank, number);
    };
    signal(SIGINT);
    const auto last_save = [&] {
      const auto log = tiny.log();
      return fs::exists(tiny.run_dir() / "checkpoints") &&
             folder_of_save(log.back().step);
    };
    while (program.running() && !last_save()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ASSERT_TRUE(program.running()) << program.err();
    signal(second);
    const int code = program.wait();
    const checkpoint::CheckpointStore store(tiny.run_dir() / "checkpoints");
    const auto latest = store.find_latest();
    ASSERT_TRUE(latest.found);
    EXPECT_THAT(latest.passed_over, testing::IsEmpty());
    const std::int64_t last = tiny.log().back().step;
    if (second == SIGTERM) {
      EXPECT_EQ(code, 0) << program.err();
      EXPECT_EQ(latest.found->step(), last);
    } else {
      EXPECT_NE(code, 0);
      EXPECT_GE(latest.found->step(), 20);
    }
    run(2, "run",
        {"--resume", "auto", "--set",
         concat("training.steps=", latest.found->step() + 2)});
    EXPECT_EQ(tiny.saved_steps().back(), latest.found->step() + 2);
  }
}

TEST_F(RanksEnd, P5_a_signal_to_the_launcher_saves_and_ends_all) {
  make_long();
  Program program(command(2, "run"));
  ASSERT_TRUE(reached(program, "run", 5)) << program.err();
  program.signal(SIGTERM);
  program.wait();  // mpirun's own code says that it was ended
  EXPECT_EQ(tiny.saved_steps().back(), tiny.log().back().step);
  EXPECT_THAT(program.err(), HasSubstr("the state is saved"));
}

// C2: the file-size limit of one rank's shell is a disk that is full for it.
TEST_F(RanksEnd,
       C2_a_save_that_fails_on_one_rank_fails_on_all_and_training_goes_on) {
  tiny.json["model"]["hidden_size"] = 128;
  tiny.json["model"]["intermediate_size"] = 256;
  std::vector<std::string> all = test::mpirun(1);
  const std::vector<std::string> program_of = {
      OSDN_BIN_DIR "/osdn-train", "--config", tiny.config_file().string()};
  all.insert(all.end(), program_of.begin(), program_of.end());
  all.insert(all.end(), {":", "-n", "1", "bash", "-c",
                         "ulimit -f 100; trap '' XFSZ; exec \"$@\"", "rank"});
  all.insert(all.end(), program_of.begin(), program_of.end());
  Program program(all);
  EXPECT_EQ(program.wait(), 1) << program.err();
  EXPECT_THAT(program.err(), AllOf(HasSubstr("step 4 is not saved: rank 1: "),
                                   HasSubstr("older checkpoints are kept")));
  EXPECT_EQ(tiny.log().size(), 12U);
  EXPECT_THAT(tiny.saved_steps(), testing::IsEmpty());
}

}  // namespace
}  // namespace osdn::train
