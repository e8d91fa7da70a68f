#pragma once
// Environment variables.

#include <optional>
#include <string>

namespace osdn {

/// The value of an environment variable; nothing when it is not set. Set but
/// empty gives "".
std::optional<std::string> env(const std::string& name);

}  // namespace osdn
