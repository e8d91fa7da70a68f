#pragma once
// "Did you mean": the known word nearest to what was written.

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace osdn {

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a`
/// into `b` (optimal string alignment distance), ignoring case.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The word of `known` with the smallest distance to `word`, of equals the
/// first that begins with it, or the first; nothing when even that one is more
/// than half as far as it is long.
std::optional<std::string> nearest(std::string_view word,
                                   std::span<const std::string> known);

}  // namespace osdn
