#pragma once
// Independent tasks over LibTorch's threads. Each task's result depends on its
// index alone, so the order in which threads take them changes no bit.

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "osdn/ops/threads.h"

namespace osdn::ops {

/// Calls run(worker_state, index) for each index in [0, count);
/// make_worker() builds one state (scratch memory) per thread.
template <typename MakeWorker, typename Run>
void parallel_tasks(std::int64_t count, const MakeWorker& make_worker,
                    const Run& run) {
  std::atomic<std::int64_t> next{0};
  const std::int64_t workers = std::min(count, thread_count());
  if (workers <= 0) return;
  parallel_for(workers, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t w = first; w < last; ++w) {
      auto worker = make_worker();
      for (std::int64_t i = next.fetch_add(1); i < count;
           i = next.fetch_add(1)) {
        run(worker, i);
      }
    }
  });
}

}  // namespace osdn::ops
