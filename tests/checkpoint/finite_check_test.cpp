#include "osdn/checkpoint/finite_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "support/tensors.h"

namespace osdn::checkpoint {
namespace {

TEST(FiniteCheck, C7_finds_the_first_bad_element_of_each_type) {
  const struct {
    DType dtype;
    std::uint64_t bits;
    double value;
  } cases[] = {
      {DType::kF64, 0x7FF8000000000000, NAN},
      {DType::kF64, 0x7FF0000000000001, NAN},
      {DType::kF64, 0xFFF0000000000000, -INFINITY},
      {DType::kF32, 0x7FC00000, NAN},
      {DType::kF32, 0xFF800001, NAN},
      {DType::kF32, 0x7F800000, INFINITY},
      {DType::kF16, 0x7E00, NAN},
      {DType::kF16, 0xFC00, -INFINITY},
      {DType::kBF16, 0x7FC0, NAN},
      {DType::kBF16, 0x7F80, INFINITY},
  };
  constexpr std::int64_t kCount = 10000;
  for (const auto& [dtype, bits, value] : cases) {
    for (const std::int64_t at : {0, 4095, 4096, 9999}) {
      std::vector<std::uint8_t> bytes(kCount * size_of(dtype));
      std::memcpy(&bytes[static_cast<std::size_t>(at) * size_of(dtype)], &bits,
                  size_of(dtype));
      test::Tensors tensors;
      tensors.add<float>("fine", DType::kF32, {1}, {1.0F});
      tensors.add("bad", dtype, {kCount}, bytes);
      const auto found = find_non_finite(tensors.views());
      ASSERT_TRUE(found.has_value());
      EXPECT_EQ(found->tensor, "bad");
      EXPECT_EQ(found->index, at);
      EXPECT_TRUE(std::isnan(value) ? std::isnan(found->value)
                                    : found->value == value);
    }
  }
}

TEST(FiniteCheck, C7_the_largest_and_smallest_numbers_are_finite) {
  test::Tensors tensors;
  using F = std::numeric_limits<float>;
  using D = std::numeric_limits<double>;
  tensors.add<float>("f", DType::kF32, {4},
                     {F::max(), F::lowest(), F::denorm_min(), -0.0F});
  tensors.add<double>("d", DType::kF64, {3},
                      {D::max(), D::lowest(), D::denorm_min()});
  tensors.add<std::uint16_t>("b", DType::kBF16, {2}, {0x7F7F, 0xFF7F});
  tensors.add<std::uint16_t>("h", DType::kF16, {2}, {0x7BFF, 0xFBFF});
  tensors.add<std::int64_t>("i", DType::kI64, {1}, {-1});
  tensors.add<std::uint16_t>("u", DType::kU16, {1}, {0xFFFF});
  tensors.add<float>("none", DType::kF32, {0}, {});
  EXPECT_FALSE(find_non_finite(tensors.views()).has_value());
}

}  // namespace
}  // namespace osdn::checkpoint
