#pragma once
// Ranks on this machine's CPU, started by mpirun.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace osdn::test {

inline constexpr const char* kMpirun = "/usr/bin/mpirun";

/// Tests of ranks: without mpirun they are skipped, or fail where CI is set.
class MpirunTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kMpirun)) {
      if (std::getenv("CI") != nullptr) FAIL() << "there is no mpirun";
      GTEST_SKIP() << "there is no mpirun";
    }
    // For root in a container; others need it not.
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
    ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    // Open MPI does not free all that it takes, which a build with sanitizers
    // would report as a failure of each rank.
    ::setenv("LSAN_OPTIONS", "detect_leaks=0", 1);
  }
};

/// The command line up to the program.
inline std::vector<std::string> mpirun(int ranks) {
  return {kMpirun, "--oversubscribe",    "--bind-to", "none",
          "-n",    std::to_string(ranks)};
}

}  // namespace osdn::test
