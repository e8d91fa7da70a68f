#pragma once
// Checks that need more than one key. parse() and load() call them; whoever
// builds a Config in code calls validate() before using it.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "osdn/config/config.h"

namespace osdn::config {

/// How messages speak of a key: its pointer and where its value comes from.
/// Returns "" for a key whose own value is already refused; checks that involve
/// it are left out.
using Describe = std::function<std::string(std::string_view path)>;

/// One message for each impossible combination.
std::vector<std::string> combination_problems(const Config& config,
                                              const Describe& describe);

/// Range checks of every key and all combinations; throws one Error
/// (ExitCode::kUsage) that lists every problem.
void validate(const Config& config);

/// Throws Error (kUsage) unless so many ranks can share training.global_batch.
void validate_ranks(const Config& config, int ranks);

}  // namespace osdn::config
