#include "problems.h"

#include "osdn/core/concat.h"
#include "osdn/core/error.h"

namespace osdn::config {

void throw_problems(const std::vector<std::string>& problems,
                    const std::string& subject) {
  if (problems.empty()) {
    return;
  }
  if (problems.size() == 1) {
    throw Error(problems.front(), ExitCode::kUsage);
  }
  std::string message = concat(problems.size(), " problems in ", subject, ":");
  for (const std::string& problem : problems) {
    message += "\n  " + problem;
  }
  throw Error(message, ExitCode::kUsage);
}

}  // namespace osdn::config
