#pragma once
// Files that a program is to write, checked before it works for hours.

#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/path.h"

namespace osdn::apps {

inline bool same_file(const std::filesystem::path& a,
                      const std::filesystem::path& b) {
  std::error_code missing;
  return std::filesystem::equivalent(a, b, missing) ||
         a.lexically_normal() == b.lexically_normal();
}

/// Throws Error (kUsage) when the file of an option cannot be written, or is
/// something that the user gave and that must not be written over.
inline void check_output(const char* option,
                         const std::optional<std::filesystem::path>& file,
                         const std::vector<std::filesystem::path>& inputs) {
  if (!file) return;
  for (const std::filesystem::path& input : inputs) {
    if (!same_file(*file, input)) continue;
    throw Error(
        concat(option, " is ", file->string(),
               ", which is another file of this call; give it a name of "
               "its own"),
        ExitCode::kUsage);
  }
  check_creatable(*file);
}

}  // namespace osdn::apps
