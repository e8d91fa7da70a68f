#include "osdn/ops/compute_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "osdn/core/error.h"
#include "osdn/ops/gpu.h"

namespace osdn::ops {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const ComputeKeys kKeys{"training.device", "training.dtype"};

std::string refusal(const std::string& device, const std::string& dtype) {
  try {
    choose_compute(device, dtype, kKeys);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(ComputeChoice, a_cpu_computes_in_fp32_unless_told_otherwise) {
  const ComputeChoice plain = choose_compute("cpu", "auto", kKeys);
  EXPECT_TRUE(plain.device.is_cpu());
  EXPECT_EQ(plain.dtype, at::kFloat);
  EXPECT_EQ(plain.device_name, "cpu");
  EXPECT_EQ(plain.dtype_name, "fp32");
  const ComputeChoice wide = choose_compute("auto", "fp64", kKeys);
  EXPECT_TRUE(wide.device.is_cpu());
  EXPECT_EQ(wide.dtype, at::kDouble);
}

TEST(ComputeChoice, refuses_what_a_cpu_has_not) {
  EXPECT_THAT(refusal("cpu", "bf16"),
              AllOf(HasSubstr("training.dtype is \"bf16\""),
                    HasSubstr("training.device is \"cpu\"")));
  EXPECT_THAT(
      refusal("gpu", "auto"),
      AllOf(HasSubstr("training.device is \"gpu\""), HasSubstr("\"cuda\"")));
  EXPECT_THAT(refusal("cpu", "half"), HasSubstr("training.dtype is \"half\""));
}

TEST(ComputeChoice, without_a_gpu_says_why_there_is_none) {
  if (gpu().usable) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_FALSE(gpu().why_not.empty());
  EXPECT_TRUE(choose_compute("auto", "auto", kKeys).device.is_cpu());
  EXPECT_THAT(refusal("cuda", "auto"),
              AllOf(HasSubstr("training.device is \"cuda\""),
                    HasSubstr(gpu().why_not)));
  EXPECT_THAT(refusal("auto", "bf16"), HasSubstr(gpu().why_not));
  EXPECT_EQ(gpu_memory().peak, 0);
  reset_gpu_memory_peak();
  synchronize_gpu();
}

}  // namespace
}  // namespace osdn::ops
