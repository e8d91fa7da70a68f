#pragma once
// CPU threads of a program's computation.

#include <cstdint>
#include <functional>

namespace osdn::ops {

/// Throws Error (kUsage) naming the option, unless threads is 0 (all cores) to
/// kMaxThreads.
void check_threads(const char* option, std::int64_t threads);

/// Takes so many; 0 leaves what LibTorch chose, all cores.
void set_threads(std::int64_t threads);
std::int64_t thread_count();

/// Calls work(first, last) for parts that together are [0, count), each on a
/// thread of its own, at most thread_count(). Inside of another such call it
/// stays on the caller's thread. What any part throws is thrown here.
void parallel_for(
    std::int64_t count,
    const std::function<void(std::int64_t first, std::int64_t last)>& work);

}  // namespace osdn::ops
