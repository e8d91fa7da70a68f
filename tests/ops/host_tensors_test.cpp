#include "osdn/ops/host_tensors.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "osdn/core/error.h"

namespace osdn::ops {
namespace {

TEST(HostTensors, are_seen_where_they_are) {
  at::Tensor weight = at::arange(6, at::kFloat).view({2, 3});
  HostTensors tensors;
  tensors.add("w", weight);
  const TensorView& view = tensors.views().at(0);
  EXPECT_EQ(view.name, "w");
  EXPECT_EQ(view.dtype, DType::kF32);
  EXPECT_EQ(view.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(view.data, weight.data_ptr());
}

TEST(HostTensors, outlive_the_handle_that_was_added) {
  HostTensors tensors;
  tensors.add("w", at::full({1000}, 3.0, at::kDouble));
  const auto* values = static_cast<const double*>(tensors.views()[0].data);
  EXPECT_EQ(values[999], 3.0);
}

TEST(HostTensors, dtypes_go_both_ways) {
  for (const at::ScalarType type :
       {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16}) {
    EXPECT_EQ(scalar_type_of(dtype_of(type)), type);
  }
  EXPECT_THROW(dtype_of(at::kLong), Error);
  EXPECT_EQ(scalar_type_of(DType::kI64), at::kLong);
  EXPECT_EQ(scalar_type_of(DType::kU8), at::kByte);
}

}  // namespace
}  // namespace osdn::ops
