#include "osdn/interchange/convert_dtype.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "osdn/core/error.h"
#include "osdn/core/random.h"

namespace osdn::interchange {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ConvertDtype, every_half_number_comes_back) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = from_f16(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(from_f16(to_f16(value)))) << bits;
    } else {
      EXPECT_EQ(to_f16(value), half) << bits;
    }
    const float brain = from_bf16(half);
    if (std::isnan(brain)) {
      EXPECT_TRUE(std::isnan(from_bf16(to_bf16(brain)))) << bits;
    } else {
      EXPECT_EQ(to_bf16(brain), half) << bits;
    }
  }
}

TEST(ConvertDtype, known_numbers) {
  EXPECT_EQ(from_f16(0x3C00), 1.0F);
  EXPECT_EQ(from_f16(0xC000), -2.0F);
  EXPECT_EQ(from_f16(0x7BFF), 65504.0F);
  EXPECT_EQ(from_f16(0x0001), std::ldexp(1.0F, -24));
  EXPECT_EQ(from_f16(0x0400), std::ldexp(1.0F, -14));
  EXPECT_EQ(from_bf16(0x3F80), 1.0F);
  EXPECT_EQ(from_bf16(0x4049), 3.140625F);
}

// Halfway between two neighbours the even one is taken, otherwise the nearest.
template <typename To, typename From>
void expect_nearest_even(To to, From from, std::uint16_t last) {
  for (std::uint16_t bits = 0; bits < last; ++bits) {
    const float low = from(bits);
    const float high = from(static_cast<std::uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;  // exact: two more bits
    const std::uint16_t even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(to(middle), even) << bits;
    ASSERT_EQ(to(-middle), even | 0x8000) << bits;
    ASSERT_EQ(to(std::nextafter(middle, 0.0F)), bits) << bits;
    ASSERT_EQ(to(std::nextafter(middle, high)), bits + 1) << bits;
  }
}

TEST(ConvertDtype, rounds_to_the_nearest_ties_to_even) {
  expect_nearest_even(to_f16, from_f16, 0x7BFF);
  expect_nearest_even(to_bf16, from_bf16, 0x7F7F);
}

TEST(ConvertDtype, overflow_of_half_is_infinite_from_its_halfway_point) {
  EXPECT_EQ(to_f16(65519.0F), 0x7BFF);
  EXPECT_EQ(to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(to_f16(-INFINITY), 0xFC00);
  EXPECT_EQ(to_bf16(INFINITY), 0x7F80);
}

TEST(ConvertDtype, widening_is_exact) {
  std::vector<std::uint16_t> bits;
  Xoshiro256 random(1);
  for (int i = 0; i < 1000; ++i) {
    bits.push_back(static_cast<std::uint16_t>(random.below(0x7800)));
  }
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const TensorView tensor{"w", dtype, {1000}, bits.data()};
    const std::vector<std::byte> wide = convert(tensor, DType::kF32);
    std::vector<float> values(1000);
    ASSERT_EQ(wide.size(), 4000U);
    std::memcpy(values.data(), wide.data(), wide.size());
    for (std::size_t i = 0; i < bits.size(); ++i) {
      EXPECT_EQ(values[i],
                dtype == DType::kF16 ? from_f16(bits[i]) : from_bf16(bits[i]));
    }
    const TensorView again{"w", DType::kF32, {1000}, values.data()};
    const std::vector<std::byte> narrow = convert(again, dtype);
    EXPECT_EQ(std::memcmp(narrow.data(), bits.data(), narrow.size()), 0);
  }
}

TEST(ConvertDtype, a_number_that_does_not_fit_is_named) {
  std::vector<float> values = {1.0F, 70000.0F};
  const TensorView tensor{"model.norm.weight", DType::kF32, {2}, values.data()};
  EXPECT_NO_THROW(convert(tensor, DType::kBF16));
  try {
    convert(tensor, DType::kF16);
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("model.norm.weight"),
                      HasSubstr("70000 at element 1"), HasSubstr("F16")));
  }
  std::vector<double> wide = {1e300};
  EXPECT_THROW(convert({"w", DType::kF64, {1}, wide.data()}, DType::kF32),
               Error);
}

TEST(ConvertDtype, integers_are_no_weights) {
  std::vector<std::int64_t> values = {1};
  EXPECT_THROW(convert({"w", DType::kI64, {1}, values.data()}, DType::kF32),
               Error);
}

}  // namespace
}  // namespace osdn::interchange
