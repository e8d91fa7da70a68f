#pragma once
// Ranks as processes of their own, forked by a test.

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/temp_dir.h"

namespace osdn::test {

/// Forks `size` processes that run `body(rank)`; each may say() one thing, and
/// exits with 0 when body returns, 1 with what it threw said.
class ForkedRanks {
 public:
  using Clock = std::chrono::steady_clock;

  ForkedRanks(int size, const std::function<void(ForkedRanks&, int)>& body) {
    for (int rank = 0; rank < size; ++rank) {
      const pid_t process = ::fork();
      if (process < 0) throw std::runtime_error("fork failed");
      if (process == 0) run(rank, body);
      processes_.push_back(process);
    }
  }
  ~ForkedRanks() {
    for (const pid_t process : processes_) {
      if (process <= 0) continue;
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
    }
  }
  ForkedRanks(const ForkedRanks&) = delete;
  ForkedRanks& operator=(const ForkedRanks&) = delete;

  // ---- in the ranks ----

  /// Rank 0's text everywhere.
  std::string broadcast(int rank, const std::string& text) const {
    if (rank == 0) write("broadcast", text);
    return await("broadcast");
  }
  void say(int rank, const std::string& text) const {
    write("said." + std::to_string(rank), text);
  }

  // ---- in the ranks and in the test: notes between them ----

  void write(const std::string& name, const std::string& text) const {
    const auto temporary = folder_ / (name + std::to_string(::getpid()));
    std::ofstream(temporary) << text;
    std::filesystem::rename(temporary, folder_ / name);
  }
  /// The note of that name, once it is there.
  std::string await(const std::string& name) const {
    const auto limit = Clock::now() + std::chrono::minutes(2);
    while (!std::filesystem::exists(folder_ / name)) {
      if (Clock::now() > limit) throw std::runtime_error("no note " + name);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return read(name);
  }

  // ---- in the test ----

  void signal(int rank, int number) const {
    const pid_t process = processes_.at(static_cast<std::size_t>(rank));
    if (process <= 0) throw std::runtime_error("the rank has ended");
    ::kill(process, number);
  }
  /// Waits for its end: the exit code, or minus the signal that ended it.
  int wait(int rank) {
    pid_t& process = processes_.at(static_cast<std::size_t>(rank));
    int status = 0;
    if (process <= 0 || ::waitpid(process, &status, 0) != process) {
      throw std::runtime_error("the rank has ended before");
    }
    process = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  /// What it said; "" for nothing.
  std::string said(int rank) const {
    return read("said." + std::to_string(rank));
  }

 private:
  [[noreturn]] void run(int rank,
                        const std::function<void(ForkedRanks&, int)>& body) {
    processes_.clear();
    try {
      body(*this, rank);
    } catch (const std::exception& error) {
      say(rank, error.what());
      ::_exit(1);
    }
    ::_exit(0);
  }
  std::string read(const std::string& name) const {
    std::ifstream in(folder_ / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TempDir folder_{TempDir::memory()};
  std::vector<pid_t> processes_;
};

}  // namespace osdn::test
