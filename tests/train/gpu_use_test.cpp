#include "osdn/train/gpu_use.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osdn/core/error.h"
#include "osdn/ops/gpu.h"

namespace osdn::train {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string advice(const config::Config& config) {
  try {
    with_memory_advice(config, [] {
      C10_THROW_ERROR(OutOfMemoryError, "tried to allocate 2.75 GiB");
    });
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kFailure);
    return error.what();
  }
  return "";
}

TEST(GpuUse, a_lack_of_memory_names_the_keys_to_lower) {
  config::Config config;
  config.training.micro_batch = 2;
  EXPECT_THAT(
      advice(config),
      AllOf(HasSubstr("out of GPU memory"), HasSubstr("training.micro_batch"),
            HasSubstr("131072 tokens"), HasSubstr("training.recompute")));
  config.training.micro_batch = 1;
  config.training.recompute = true;
  EXPECT_THAT(advice(config), AllOf(HasSubstr("data.sequence_length"),
                                    Not(HasSubstr("training.recompute"))));
}

TEST(GpuUse, other_errors_pass) {
  EXPECT_THROW(with_memory_advice({}, [] { throw Error("other"); }), Error);
  EXPECT_THROW(with_memory_advice({}, [] { throw std::bad_alloc(); }),
               std::bad_alloc);
}

TEST(GpuUse, says_nothing_without_a_gpu) {
  if (ops::gpu().usable) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(gpu_use({}, 1000, 0), "");
}

}  // namespace
}  // namespace osdn::train
