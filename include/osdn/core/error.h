#pragma once
// The one exception type of osdn and its translation to exit codes.
//
// Everything that goes wrong is thrown as an Error (or a std exception) and
// reaches main() once; run_main() there prints one message and returns the
// documented exit code.

#include <stdexcept>
#include <string>

namespace osdn {

/// Exit codes of every osdn program, listed in the README.
enum class ExitCode : int {
  kOk = 0,
  kFailure = 1,    ///< anything not listed below
  kUsage = 2,      ///< bad command line or configuration
  kBadInput = 3,   ///< a data, checkpoint or evaluation file is not sound
  kNonFinite = 4,  ///< training stopped on a non-finite loss or gradient
};

/// An error with a message that says what, where and what would be right. An
/// empty message: another process says it.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, ExitCode code = ExitCode::kFailure)
      : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

}  // namespace osdn
