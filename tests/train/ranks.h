#pragma once
// Runs of several ranks, started by mpirun on this machine's CPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "osdn/checkpoint/checkpoint_store.h"
#include "support/mpirun.h"
#include "support/program.h"
#include "train/tiny_run.h"

namespace osdn::test {

// 12 rows a step, which 1, 2, 3 and 4 ranks divide.
class RanksTest : public MpirunTest {
 protected:
  void SetUp() override {
    MpirunTest::SetUp();
    tiny.json["training"]["global_batch"] = 12;
    tiny.json["dist"] = {{"timeout_s", 20}};
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

  // The save of this step is being written.
  bool folder_of_save(std::int64_t step) const {
    const std::string digits = std::to_string(1'000'000'000 + step).substr(1);
    for (const auto& entry :
         std::filesystem::directory_iterator(tiny.run_dir() / "checkpoints")) {
      if (entry.path().filename().string().starts_with("step_" + digits +
                                                       ".tmp-")) {
        return true;
      }
    }
    return false;
  }

  // Processes of a run, by the name of its folder, in order of their start.
  std::vector<pid_t> processes(
      const std::string& name,
      const std::string& program = "osdn-train") const {
    return running(program, tiny.config_file(name).string());
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
    EXPECT_TRUE(processes("run").empty());
    return program.err();
  }

  TinyRun tiny;
};

}  // namespace osdn::test
