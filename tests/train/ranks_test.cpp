// Runs of several ranks, started by mpirun on this machine's CPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "osdn/checkpoint/checkpoint_store.h"
#include "osdn/checkpoint/weight_files.h"
#include "osdn/core/concat.h"
#include "support/program.h"
#include "train/tiny_run.h"

namespace osdn::train {
namespace {

namespace fs = std::filesystem;
using test::fingerprints;
using test::Program;
using test::TinyRun;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kMpirun = "/usr/bin/mpirun";

// 12 rows a step, which 1, 2, 3 and 4 ranks divide.
class Ranks : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kMpirun)) {
      if (std::getenv("CI") != nullptr) FAIL() << "there is no mpirun";
      GTEST_SKIP() << "there is no mpirun";
    }
    // For root in a container; others need it not.
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    tiny.json["training"]["global_batch"] = 12;
    tiny.json["dist"] = {{"timeout_s", 20}};
  }

  static std::vector<std::string> mpirun(int ranks) {
    return {kMpirun, "--oversubscribe",    "--bind-to", "none",
            "-n",    std::to_string(ranks)};
  }

  std::vector<std::string> command(int ranks, const std::string& name,
                                   std::vector<std::string> more = {}) const {
    std::vector<std::string> all = mpirun(ranks);
    all.insert(all.end(), {OSDN_BIN_DIR "/osdn-train", "--config",
                           tiny.config_file(name).string()});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  std::vector<std::string> poisoned(int ranks, const std::string& rank,
                                    const std::string& step,
                                    const std::string& what) const {
    std::vector<std::string> all = mpirun(ranks);
    all.insert(all.end(), {OSDN_BIN_DIR "/../tests/poisoned_rank",
                           tiny.config_file().string(), tiny.run_dir().string(),
                           rank, step, what});
    return all;
  }

  void run(int ranks, const std::string& name,
           std::vector<std::string> more = {}) const {
    Program program(command(ranks, name, std::move(more)));
    EXPECT_EQ(program.wait(), 0) << program.err() << program.out();
  }

  // Processes of a run, by the name of its folder, in order of their start.
  std::vector<pid_t> processes(const std::string& name) const {
    std::vector<pid_t> out;
    const std::string config = tiny.config_file(name).string();
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string number = entry.path().filename();
      if (number.find_first_not_of("0123456789") != std::string::npos) continue;
      std::ifstream in(entry.path() / "cmdline");
      std::string text((std::istreambuf_iterator<char>(in)), {});
      if (text.starts_with(OSDN_BIN_DIR "/osdn-train") &&
          text.find(config) != std::string::npos) {
        out.push_back(std::stoi(number));
      }
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  // Waits until the run has logged so many steps; false when it ended before.
  bool reached(Program& program, const std::string& name, std::size_t steps) {
    while (program.running()) {
      std::ifstream in(tiny.run_dir(name) / "log.jsonl");
      std::size_t lines = 0;
      for (std::string line; std::getline(in, line);) ++lines;
      if (lines >= steps) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  void make_long() {
    tiny.json["training"]["steps"] = 100000;
    tiny.json["training"]["validate_every"] = 0;
    tiny.json["schedule"]["total_steps"] = 100000;
    tiny.json["checkpoint"]["every"] = 20;
  }

  // Runs until step 45, when the save of step 20 is done, does something, and
  // expects a bad end in time.
  std::string after_step_45(int ranks,
                            const std::function<void(Program&)>& mischief) {
    make_long();
    Program program(command(ranks, "run"));
    EXPECT_TRUE(reached(program, "run", 45)) << program.err();
    const auto start = std::chrono::steady_clock::now();
    mischief(program);
    EXPECT_NE(program.wait(), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::seconds(60));
    const checkpoint::CheckpointStore store(tiny.run_dir() / "checkpoints");
    const auto latest = store.find_latest();
    EXPECT_TRUE(latest.found && latest.passed_over.empty());
    EXPECT_THAT(processes("run"), testing::IsEmpty());
    return program.err();
  }

  TinyRun tiny;
};

void expect_near(const std::vector<report::StepRecord>& a,
                 const std::vector<report::StepRecord>& b, double tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i].loss, b[i].loss, tolerance) << "step " << a[i].step;
    EXPECT_EQ(a[i].valid_labels, b[i].valid_labels);
    ASSERT_EQ(a[i].validation.has_value(), b[i].validation.has_value());
    if (a[i].validation) {
      EXPECT_NEAR(a[i].validation->loss, b[i].validation->loss, tolerance);
      EXPECT_EQ(a[i].validation->tokens, b[i].validation->tokens);
    }
  }
}

// fp32: sums in another order differ by a few units in the last place of each
// gradient; over 100 steps of a smooth loss of about 3 that stays below 1e-4.
TEST_F(Ranks, L2_any_number_of_ranks_follows_the_loss_of_one) {
  tiny.json["training"]["steps"] = 100;
  tiny.json["training"]["validate_every"] = 50;
  tiny.json["schedule"]["total_steps"] = 100;
  Program alone({OSDN_BIN_DIR "/osdn-train", "--config",
                 tiny.config_file("alone").string()});
  ASSERT_EQ(alone.wait(), 0) << alone.err();
  run(1, "one");
  expect_near(tiny.log("one"), tiny.log("alone"), 1e-6);
  for (const int ranks : {2, 3, 4}) {
    const std::string name = concat("run", ranks);
    run(ranks, name);
    expect_near(tiny.log(name), tiny.log("alone"), 1e-4);
  }
  run(3, "again");
  EXPECT_EQ(fingerprints(tiny.log("again")), fingerprints(tiny.log("run3")));
}

TEST_F(Ranks, fp64_ranks_follow_one_to_the_last_digits) {
  tiny.json["training"]["dtype"] = "fp64";
  run(1, "one");
  run(3, "three");
  expect_near(tiny.log("three"), tiny.log("one"), 1e-12);
}

TEST_F(Ranks, a_whole_optimizer_is_the_sharded_one) {
  run(3, "sharded");
  run(3, "whole", {"--set", "dist.shard_optimizer=false"});
  expect_near(tiny.log("whole"), tiny.log("sharded"), 1e-5);
}

TEST_F(Ranks, buckets_of_any_size_give_the_same_sums) {
  run(3, "few");
  run(3, "many", {"--set", "dist.bucket_mb=0.0001"});
  expect_near(tiny.log("many"), tiny.log("few"), 1e-6);
}

// bf16 keeps 8 bits: each gradient is rounded to one part in 256, which moves
// the loss of 12 steps by less than 2 in a hundred, and does move it.
TEST_F(Ranks, gradients_are_summed_in_the_precision_asked_for) {
  run(2, "fp32");
  run(2, "bf16", {"--set", "dist.reduce_dtype=bf16"});
  expect_near(tiny.log("bf16"), tiny.log("fp32"), 0.05);
  EXPECT_NE(tiny.log("bf16").back().loss, tiny.log("fp32").back().loss);
}

// L3: some ranks have no row with a label in a micro-batch, or none at all.
TEST_F(Ranks, L3_a_rank_without_labels_stays_in_step) {
  tiny.json["data"]["epochs"] = 1;
  tiny.json["training"]["steps"] = 1000;
  Program alone({OSDN_BIN_DIR "/osdn-train", "--config",
                 tiny.config_file("alone").string()});
  ASSERT_EQ(alone.wait(), 0) << alone.err();
  run(4, "four");  // the last step of the epoch has fewer rows
  expect_near(tiny.log("four"), tiny.log("alone"), 1e-5);
}

TEST_F(Ranks, C3_R1_a_checkpoint_of_some_ranks_goes_on_on_others) {
  run(1, "whole");
  for (const auto& [first, second] :
       {std::pair{3, 2}, {2, 4}, {1, 3}, {4, 1}}) {
    const std::string name = concat("run", first, second);
    run(first, name, {"--set", "training.steps=8"});
    run(second, name, {"--resume", "auto"});
    expect_near(tiny.log(name), tiny.log("whole"), 1e-4);
    EXPECT_EQ(tiny.saved_steps(name).back(), 12);
  }
}

TEST_F(Ranks, a_checkpoint_holds_each_tensor_once) {
  run(3, "three");
  run(1, "one");
  for (const char* stem : {"model", "optimizer"}) {
    const checkpoint::WeightFiles three(
        tiny.run_dir("three") / "checkpoints" / "step_000000012", stem);
    const checkpoint::WeightFiles one(
        tiny.run_dir("one") / "checkpoints" / "step_000000012", stem);
    ASSERT_EQ(three.tensors().size(), one.tensors().size());
    for (const TensorView& tensor : one.tensors()) {
      EXPECT_EQ(three.tensor(tensor.name).shape, tensor.shape);
    }
  }
}

TEST_F(Ranks, G3_a_batch_that_the_ranks_do_not_divide_is_refused_once) {
  Program program(command(5, "run"));
  EXPECT_NE(program.wait(), 0);
  const std::string& err = program.err();
  EXPECT_THAT(err,
              HasSubstr("training.global_batch is 12, which is no multiple "
                        "of 5 ranks times training.micro_batch 1"));
  EXPECT_EQ(err.find("is no multiple"), err.rfind("is no multiple"));
  EXPECT_FALSE(fs::exists(tiny.run_dir() / "log.jsonl"));
}

TEST_F(Ranks, ranks_of_different_configurations_are_refused) {
  std::vector<std::string> all = command(1, "run");
  const std::vector<std::string> other =
      command(1, "run", {"--set", "optimizer.lr=0.5"});
  all.push_back(":");
  all.insert(all.end(), other.begin() + 4, other.end());
  Program program(all);
  EXPECT_NE(program.wait(), 0);
  EXPECT_THAT(program.err(), AllOf(HasSubstr("their configurations differ"),
                                   HasSubstr("optimizer.lr: 0.01 and 0.5")));
}

TEST_F(Ranks, ranks_of_different_data_are_refused) {
  // One configuration, two folders that it is read from.
  const fs::path other = tiny.folder() / "other";
  fs::create_directory(other);
  test::write_shard(other / "train.tokens", test::tiny_documents(77, 40));
  fs::copy_file(tiny.folder() / "validation.tokens",
                other / "validation.tokens");
  tiny.json["data"]["train"] = {"train.tokens"};
  tiny.json["data"]["validation"] = {"validation.tokens"};
  const std::vector<std::string> program_of = {
      OSDN_BIN_DIR "/osdn-train", "--config", tiny.config_file().string()};
  std::vector<std::string> all = {
      kMpirun, "--oversubscribe", "--bind-to",           "none", "-n",
      "1",     "--wdir",          tiny.folder().string()};
  all.insert(all.end(), program_of.begin(), program_of.end());
  all.insert(all.end(), {":", "-n", "1", "--wdir", other.string()});
  all.insert(all.end(), program_of.begin(), program_of.end());
  Program program(all);
  EXPECT_NE(program.wait(), 0);
  EXPECT_THAT(program.err(), HasSubstr("data.train holds different tokens"));
  EXPECT_FALSE(fs::exists(tiny.run_dir() / "log.jsonl"));
}

TEST_F(Ranks, ranks_of_different_builds_are_refused) {
  const fs::path other = tiny.folder() / "osdn-train";
  fs::copy_file(OSDN_BIN_DIR "/osdn-train", other);
  std::ofstream(other, std::ios::app) << "another build";
  std::vector<std::string> all = command(1, "run");
  all.insert(all.end(), {":", "-n", "1", other.string(), "--config",
                         tiny.config_file("run").string()});
  Program program(all);
  EXPECT_NE(program.wait(), 0);
  EXPECT_THAT(program.err(), HasSubstr("they run different builds"));
}

TEST_F(Ranks, P7_a_rank_bound_to_one_core_is_told_how_to_have_more) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core";
  Program program({kMpirun, "--oversubscribe", "--bind-to", "core", "-n", "1",
                   OSDN_BIN_DIR "/osdn-train", "--config",
                   tiny.config_file().string(), ":", "-n", "1",
                   OSDN_BIN_DIR "/osdn-train", "--config",
                   tiny.config_file().string()});
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.err(), AllOf(HasSubstr("is bound to core "),
                                   HasSubstr("--bind-to none")));
}

TEST_F(Ranks, P2_an_exception_on_one_rank_ends_all_and_is_named) {
  Program program(poisoned(3, "2", "9", "throw"));
  EXPECT_NE(program.wait(), 0);
  EXPECT_THAT(program.err(),
              AllOf(HasSubstr("error: this rank was told to fail"),
                    HasSubstr("rank 2 (host"), HasSubstr("told to fail")));
  // That of step 8 may be cut off while it is written.
  EXPECT_THAT(tiny.saved_steps(), testing::Contains(4));
}

TEST_F(Ranks, P2_a_rank_that_hangs_ends_all_in_time_and_is_named) {
  tiny.json["dist"]["timeout_s"] = 4;
  Program program(poisoned(3, "1", "9", "hang"));
  EXPECT_NE(program.wait(), 0);
  EXPECT_THAT(program.err(),
              AllOf(HasSubstr("rank 1 (host"), HasSubstr("step 9")));
  // That of step 8 may be cut off while it is written.
  EXPECT_THAT(tiny.saved_steps(), testing::Contains(4));
}

TEST_F(Ranks, P1_a_nan_on_one_rank_is_skipped_by_all_in_the_same_step) {
  Program program(poisoned(3, "1", "5", "nan"));
  EXPECT_EQ(program.wait(), 0) << program.err();
  const auto log = tiny.log();
  ASSERT_EQ(log.size(), 12U);
  for (const report::StepRecord& record : log) {
    EXPECT_EQ(record.skipped, record.step == 5) << record.step;
  }
  EXPECT_THAT(program.err(), HasSubstr("gradient norm is nan"));
}

TEST_F(Ranks, P2_a_killed_rank_ends_all_and_is_named) {
  const std::string err = after_step_45(
      3, [&](Program&) { ::kill(processes("run").at(1), SIGKILL); });
  EXPECT_THAT(err, HasSubstr("rank 1 (host"));
  EXPECT_THAT(err, HasSubstr("was killed or crashed"));
}

TEST_F(Ranks, P2_a_killed_first_rank_ends_all_and_is_named) {
  const std::string err = after_step_45(
      3, [&](Program&) { ::kill(processes("run").at(0), SIGKILL); });
  EXPECT_THAT(err, HasSubstr("rank 0 (host"));
}

TEST_F(Ranks, P2_a_stopped_rank_ends_all_in_time_and_is_named) {
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

TEST_F(Ranks, P5_a_signal_to_one_rank_saves_once_and_ends_all_well) {
  make_long();
  Program program(command(3, "run"));
  ASSERT_TRUE(reached(program, "run", 5)) << program.err();
  ::kill(processes("run").at(2), SIGTERM);
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.err(), HasSubstr("stopped by SIGTERM after step"));
  EXPECT_EQ(tiny.saved_steps().back(), tiny.log().back().step);
}

TEST_F(Ranks, P5_a_signal_to_the_launcher_saves_and_ends_all) {
  make_long();
  Program program(command(2, "run"));
  ASSERT_TRUE(reached(program, "run", 5)) << program.err();
  program.signal(SIGTERM);
  program.wait();  // mpirun's own code says that it was ended
  EXPECT_EQ(tiny.saved_steps().back(), tiny.log().back().step);
  EXPECT_THAT(program.err(), HasSubstr("the state is saved"));
}

// C2: the file-size limit of one rank's shell is a disk that is full for it.
TEST_F(Ranks,
       C2_a_save_that_fails_on_one_rank_fails_on_all_and_training_goes_on) {
  tiny.json["model"]["hidden_size"] = 128;
  tiny.json["model"]["intermediate_size"] = 256;
  std::vector<std::string> all = mpirun(1);
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

TEST_F(Ranks, a_wrong_option_is_said_once) {
  Program program(command(3, "run", {"--nope"}));
  EXPECT_NE(program.wait(), 0);
  const std::string& err = program.err();
  EXPECT_THAT(err, HasSubstr("--nope"));
  EXPECT_EQ(err.find("was not expected"), err.rfind("was not expected"));
}

TEST_F(Ranks, copies_that_do_not_know_of_each_other_are_refused) {
  ::setenv("PMI_RANK", "1", 1);
  ::setenv("PMI_SIZE", "2", 1);
  Program program(
      {OSDN_BIN_DIR "/osdn-train", "--config", tiny.config_file().string()});
  ::unsetenv("PMI_RANK");
  ::unsetenv("PMI_SIZE");
  EXPECT_EQ(program.wait(), 2);
  EXPECT_THAT(program.err(), HasSubstr("started 2 ranks (PMI_SIZE)"));
}

TEST_F(Ranks, O3_one_rank_speaks_in_plain_lines) {
  Program program(command(2, "run"));
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_THAT(program.out(),
              AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\r"))));
  const std::string& err = program.err();
  EXPECT_EQ(err.find("finished step 12"), err.rfind("finished step 12"));
}

}  // namespace
}  // namespace osdn::train
