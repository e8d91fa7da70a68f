// Which cores and which GPU a rank has.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osdn/core/error.h"
#include "osdn/dist/cores.h"
#include "osdn/dist/gpu_choice.h"
#include "support/message_of.h"

namespace osdn::dist {
namespace {

using testing::HasSubstr;

Place place_of(int local_rank, int local_size) {
  return {local_rank, local_size, local_rank, local_size, "node7"};
}

TEST(Cores, are_written_as_ranges) {
  EXPECT_EQ(cores_text({0}), "0");
  EXPECT_EQ(cores_text({0, 1, 2, 3}), "0-3");
  EXPECT_EQ(cores_text({0, 2, 3, 9}), "0,2-3,9");
  EXPECT_FALSE(usable_cores().empty());
}

TEST(GpuChoice, P3_the_local_rank_picks_the_gpu) {
  EXPECT_EQ(visible_gpu({}, place_of(2, 4)), "2");
  EXPECT_EQ(visible_gpu("4,5,6,7", place_of(2, 4)), "6");
  EXPECT_EQ(visible_gpu("GPU-aa,GPU-bb", place_of(1, 2)), "GPU-bb");
}

TEST(GpuChoice, P3_what_the_launcher_chose_stays) {
  EXPECT_EQ(visible_gpu("3", place_of(3, 4)), "3");
  EXPECT_EQ(visible_gpu("", place_of(1, 2)), "");
}

TEST(GpuChoice, P3_more_ranks_than_gpus_are_refused) {
  EXPECT_THAT(test::message_of([] { visible_gpu("0,1", place_of(0, 3)); },
                               ExitCode::kUsage),
              HasSubstr("host node7 has 3 ranks and CUDA_VISIBLE_DEVICES=0,1 "
                        "shows them 2 GPUs"));
}

}  // namespace
}  // namespace osdn::dist
