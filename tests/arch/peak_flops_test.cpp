#include "osdn/arch/peak_flops.h"

#include <gtest/gtest.h>

namespace osdn::arch {
namespace {

TEST(PeakFlops, knows_hopper_by_the_drivers_names) {
  EXPECT_EQ(peak_flops("NVIDIA H200"), 989e12);
  EXPECT_EQ(peak_flops("NVIDIA H100 80GB HBM3"), 989e12);
  EXPECT_EQ(peak_flops("NVIDIA H100 PCIe"), 756e12);
}

TEST(PeakFlops, says_so_when_a_gpu_is_unknown) {
  EXPECT_FALSE(peak_flops("Some Other GPU"));
  EXPECT_FALSE(peak_flops(""));
}

}  // namespace
}  // namespace osdn::arch
