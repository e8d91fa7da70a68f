#pragma once
// Problems are collected and thrown together.

#include <string>
#include <vector>

namespace osdn::config {

/// Throws one Error (ExitCode::kUsage) that lists `problems`; does nothing when
/// there are none. `subject` is what was being checked.
void throw_problems(const std::vector<std::string>& problems,
                    const std::string& subject);

}  // namespace osdn::config
