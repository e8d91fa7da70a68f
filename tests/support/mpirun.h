#pragma once
// Ranks on this machine's CPU, started by mpirun.

#include <gtest/gtest.h>
#include <sys/types.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
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

/// Processes of a program that were given an argument with this text, in order
/// of their start.
inline std::vector<pid_t> running(const std::string& program,
                                  const std::string& text) {
  std::vector<pid_t> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string number = entry.path().filename();
    if (number.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream in(entry.path() / "cmdline");
    const std::string command((std::istreambuf_iterator<char>(in)), {});
    const std::string path = command.substr(0, command.find('\0'));
    if (path.ends_with("/" + program) &&
        command.find(text) != std::string::npos) {
      out.push_back(std::stoi(number));
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace osdn::test
