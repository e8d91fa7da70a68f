#include "osdn/ops/threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <thread>
#include <vector>

#include "osdn/core/error.h"

namespace osdn::ops {
namespace {

TEST(Threads, absurd_counts_are_refused_before_any_is_started) {
  for (const std::int64_t threads : {-1L, 4097L, 1000000L, 1L << 40}) {
    EXPECT_THROW(check_threads("--threads", threads), Error) << threads;
  }
  for (const std::int64_t threads : {0L, 1L, 4096L}) {
    EXPECT_NO_THROW(check_threads("--threads", threads)) << threads;
  }
}

TEST(Threads, zero_leaves_the_number_alone) {
  const int before = at::get_num_threads();
  set_threads(0);
  EXPECT_EQ(at::get_num_threads(), before);
  set_threads(1);
  EXPECT_EQ(at::get_num_threads(), 1);
}

// Each part waits for the other one to have begun: on one thread neither would
// ever go on.
TEST(Threads, parts_run_at_the_same_time) {
  const std::int64_t before = thread_count();
  set_threads(2);
  std::latch begun(2);
  std::atomic<int> together{0};
  parallel_for(2, [&](std::int64_t first, std::int64_t last) {
    EXPECT_EQ(last, first + 1);
    begun.count_down();
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!begun.try_wait() && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    together += begun.try_wait();
  });
  set_threads(before);
  EXPECT_EQ(together, 2);
}

TEST(Threads, parts_are_all_there_is_and_what_they_throw_arrives) {
  const std::int64_t before = thread_count();
  for (const std::int64_t threads : {1, 2, 5}) {
    set_threads(threads);
    std::vector<std::atomic<int>> seen(17);
    parallel_for(17, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        ++seen[static_cast<std::size_t>(i)];
      }
    });
    for (const std::atomic<int>& count : seen) EXPECT_EQ(count, 1);
    EXPECT_THROW(parallel_for(4,
                              [](std::int64_t, std::int64_t last) {
                                if (last == 4) throw Error("the last part");
                              }),
                 Error);
  }
  set_threads(before);
  parallel_for(0, [](std::int64_t, std::int64_t) { FAIL(); });
}

}  // namespace
}  // namespace osdn::ops
