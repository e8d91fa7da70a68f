#pragma once
// Which osdn this is.

#include <string>
#include <string_view>

namespace osdn {

/// The project's version, for example "0.1.0".
std::string version();

/// The git commit that was built, 40 hexadecimal digits, "-dirty" after it when
/// tracked files differed; "unknown" when built outside a git checkout.
std::string commit();

/// What --version prints: "<program> <version> (<commit>)".
std::string version_line(std::string_view program);

}  // namespace osdn
