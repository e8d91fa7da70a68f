#include "osdn/ops/threads.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace osdn::ops
