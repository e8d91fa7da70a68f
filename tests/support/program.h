#pragma once
// Runs one of the project's programs: output, exit code, signals.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/temp_dir.h"

namespace osdn::test {

/// Where a program's standard output goes.
enum class Output {
  kFile,
  kUnread,  ///< a pipe whose reader has left, as with `| head -n 1`
};

/// A running program; its standard output and error go to files.
class Program {
 public:
  /// `arguments`: the program's path first.
  explicit Program(const std::vector<std::string>& arguments,
                   Output output = Output::kFile) {
    std::vector<char*> raw;
    for (const std::string& argument : arguments) {
      raw.push_back(const_cast<char*>(argument.c_str()));
    }
    raw.push_back(nullptr);
    const std::string out_path = (folder_ / "out").string();
    const std::string err_path = (folder_ / "err").string();
    process_ = ::fork();
    if (process_ < 0) {
      throw std::runtime_error("fork failed");
    }
    if (process_ == 0) {
      const int flags = O_WRONLY | O_CREAT | O_TRUNC;
      ::dup2(output == Output::kUnread ? unread_pipe()
                                       : ::open(out_path.c_str(), flags, 0600),
             STDOUT_FILENO);
      ::dup2(::open(err_path.c_str(), flags, 0600), STDERR_FILENO);
      ::execv(raw.front(), raw.data());
      ::_exit(127);
    }
  }
  ~Program() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      ::waitpid(process_, nullptr, 0);
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t process() const { return process_; }
  /// Throws when it has ended: the number -1 would mean every process there is.
  void signal(int number) const {
    if (process_ <= 0) throw std::runtime_error("the program has ended");
    ::kill(process_, number);
  }

  /// False once it has ended; does not wait.
  bool running() {
    if (process_ > 0 && ::waitpid(process_, &status_, WNOHANG) == process_) {
      process_ = -1;
    }
    return process_ > 0;
  }

  /// Waits for the end: the exit code, or minus the signal that ended it.
  int wait() {
    if (process_ > 0) {
      ::waitpid(process_, &status_, 0);
      process_ = -1;
    }
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : -WTERMSIG(status_);
  }

  std::string out() const { return text(folder_ / "out"); }
  std::string err() const { return text(folder_ / "err"); }

 private:
  static int unread_pipe() {
    int ends[2] = {-1, -1};
    if (::pipe(ends) == 0) ::close(ends[0]);
    return ends[1];
  }
  static std::string text(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  TempDir folder_;
  pid_t process_ = -1;
  int status_ = 0;
};

}  // namespace osdn::test
