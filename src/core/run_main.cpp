#include "osdn/core/run_main.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

namespace osdn {

namespace {

std::string program_name(int argc, char** argv) {
  if (argc < 1 || argv == nullptr || argv[0] == nullptr) {
    return "osdn";
  }
  const std::string name = std::filesystem::path(argv[0]).filename().string();
  return name.empty() ? "osdn" : name;
}

// LibTorch appends its C++ stack to what(); a user gains nothing from it.
std::string without_stack(std::string_view what) {
  const std::size_t stack = what.find("\nException raised from ");
  return std::string(what.substr(0, stack));
}

bool written_completely() {
  std::cout.flush();
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout;
}

// `program | head -n 1`: who reads has what they wanted.
bool reader_has_left() {
  pollfd output{STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

int report(const std::string& program, const std::string& message,
           ExitCode code) {
  std::cout.flush();
  std::fflush(stdout);
  if (message.empty()) {
    return static_cast<int>(code);
  }
  const std::string line = program + ": error: " + message + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
  return static_cast<int>(code);
}

// A file that is opened in the place of a closed standard stream would get what
// is written there.
void fill_standard_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (::fcntl(stream, F_GETFD) == -1 && errno == EBADF) {
      static_cast<void>(
          ::open("/dev/null", O_RDWR));  // takes the lowest number
    }
  }
}

}  // namespace

int run_main(int argc, char** argv,
             const std::function<ExitCode(int, char**)>& program) {
  const std::string name = program_name(argc, argv);
  fill_standard_streams();
  // Files are still to be written when who reads the output has left.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    const ExitCode code = program(argc, argv);
    if (!written_completely() && !reader_has_left()) {
      return report(name,
                    "standard output could not be written completely; is the "
                    "disk full?",
                    ExitCode::kFailure);
    }
    return static_cast<int>(code);
  } catch (const Error& error) {
    return report(name, error.what(), error.code());
  } catch (const std::bad_alloc&) {
    return report(name,
                  "out of memory; a smaller micro-batch, model or sequence "
                  "length needs less",
                  ExitCode::kFailure);
  } catch (const std::filesystem::filesystem_error& error) {
    std::string message = error.code().message();
    if (!error.path1().empty()) {
      message = error.path1().string() + ": " + message;
    }
    if (!error.path2().empty()) {
      message += " (towards " + error.path2().string() + ")";
    }
    return report(name, message, ExitCode::kFailure);
  } catch (const std::exception& error) {
    return report(name, without_stack(error.what()), ExitCode::kFailure);
  } catch (...) {
    return report(name, "an exception of an unknown type was thrown",
                  ExitCode::kFailure);
  }
}

}  // namespace osdn
