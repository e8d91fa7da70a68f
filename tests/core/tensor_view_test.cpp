#include "osdn/core/tensor_view.h"

#include <gtest/gtest.h>

#include "osdn/core/error.h"

namespace osdn {
namespace {

TEST(TensorView, sizes_and_names_of_dtypes) {
  EXPECT_EQ(size_of(DType::kF64), 8U);
  EXPECT_EQ(size_of(DType::kBF16), 2U);
  EXPECT_EQ(size_of(DType::kU8), 1U);
  for (const DType dtype :
       {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kI64,
        DType::kI32, DType::kU16, DType::kU8}) {
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
  }
}

TEST(TensorView, an_unknown_dtype_names_the_known_ones) {
  try {
    dtype_from_name("F8_E4M3");
    FAIL();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_NE(message.find("F8_E4M3"), std::string::npos);
    EXPECT_NE(message.find("F64, F32, F16, BF16"), std::string::npos);
  }
}

TEST(TensorView, counts) {
  TensorView view{.name = "w", .dtype = DType::kBF16, .shape = {3, 4, 5}};
  EXPECT_EQ(view.numel(), 60);
  EXPECT_EQ(view.bytes(), 120U);
  view.shape = {};
  EXPECT_EQ(view.numel(), 1);
  view.shape = {7, 0};
  EXPECT_EQ(view.numel(), 0);
  EXPECT_EQ(view.bytes(), 0U);
}

TEST(TensorView, K9_more_than_two_to_the_31_elements) {
  const TensorView view{
      .name = "w", .dtype = DType::kF32, .shape = {70000, 70000}};
  EXPECT_EQ(view.numel(), 4900000000);
  EXPECT_EQ(view.bytes(), 19600000000U);
}

TEST(TensorView, C6_sizes_that_overflow_are_errors) {
  TensorView view{.name = "w",
                  .dtype = DType::kF32,
                  .shape = {std::int64_t{1} << 40, std::int64_t{1} << 40}};
  EXPECT_THROW(view.numel(), Error);
  view.shape = {std::int64_t{1} << 62};
  EXPECT_EQ(view.numel(), std::int64_t{1} << 62);
  EXPECT_THROW(view.bytes(), Error);
  view.shape = {-1};
  EXPECT_THROW(view.numel(), Error);
}

}  // namespace
}  // namespace osdn
