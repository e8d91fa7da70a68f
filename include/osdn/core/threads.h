#pragma once
// How many threads a program may be asked for.

#include <cstdint>

namespace osdn {

/// Starting more takes a machine down before it helps.
inline constexpr std::int64_t kMaxThreads = 4096;

}  // namespace osdn
