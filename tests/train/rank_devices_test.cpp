#include "osdn/train/rank_devices.h"

#include <gtest/gtest.h>

namespace osdn::train {
namespace {

TEST(RankDevices, all_fit) {
  EXPECT_EQ(
      device_problems({{"cuda", "GPU-1", "a"}, {"cuda", "GPU-2", "a"}}, false),
      "");
  EXPECT_EQ(device_problems({{"cpu", "", "a"}, {"cpu", "", "a"}}, false), "");
}

TEST(RankDevices, of_two_kinds_do_not) {
  EXPECT_EQ(device_problems({{"cuda", "GPU-1", "a"}, {"cpu", "", "b"}}, true),
            "\nrank 0 (host a) and rank 1 (host b): they compute on different "
            "devices: cuda and cpu");
}

TEST(RankDevices, a_shared_gpu_does_only_where_it_may) {
  const std::vector<RankDevice> ranks = {
      {"cuda", "GPU-1", "a"}, {"cuda", "GPU-2", "a"}, {"cuda", "GPU-1", "a"}};
  EXPECT_EQ(device_problems(ranks, true), "");
  EXPECT_EQ(device_problems(ranks, false),
            "\nrank 0 (host a) and rank 2 (host a) would share one GPU, GPU-1; "
            "start one rank a GPU (mpirun -n, CUDA_VISIBLE_DEVICES), or set "
            "dist.share_gpus to try ranks out");
}

}  // namespace
}  // namespace osdn::train
