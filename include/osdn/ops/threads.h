#pragma once
// CPU threads of a program's computation.

#include <cstdint>

namespace osdn::ops {

/// Throws Error (kUsage) naming the option, unless threads is 0 (all cores) to
/// kMaxThreads.
void check_threads(const char* option, std::int64_t threads);

/// Takes so many; 0 leaves what LibTorch chose, all cores.
void set_threads(std::int64_t threads);

}  // namespace osdn::ops
