#include "osdn/core/run_main.h"

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

}  // namespace

int run_main(int argc, char** argv,
             const std::function<ExitCode(int, char**)>& program) {
  const std::string name = program_name(argc, argv);
  try {
    const ExitCode code = program(argc, argv);
    std::cout.flush();
    if (!std::cout || std::fflush(stdout) != 0) {
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
