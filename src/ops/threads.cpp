#include "osdn/ops/threads.h"

#include <ATen/Parallel.h>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/threads.h"

namespace osdn::ops {

void check_threads(const char* option, std::int64_t threads) {
  if (threads >= 0 && threads <= kMaxThreads) return;
  throw Error(concat(option, " is ", threads, "; expected 1 to ", kMaxThreads,
                     ", or 0 for all cores"),
              ExitCode::kUsage);
}

void set_threads(std::int64_t threads) {
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
}

std::int64_t thread_count() {
  return at::get_num_threads();
}

#ifndef _OPENMP
#error "without OpenMP at::parallel_for stays on one thread; see CMakeLists.txt"
#endif

void parallel_for(std::int64_t count,
                  const std::function<void(std::int64_t, std::int64_t)>& work) {
  at::parallel_for(0, count, 1, work);
}

}  // namespace osdn::ops
