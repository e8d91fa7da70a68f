#include "osdn/ops/pack.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "support/message_of.h"

namespace osdn::ops {
namespace {

TEST(Pack, puts_tensors_in_their_places_converted) {
  const at::Tensor flat = at::full({12}, -1.0, at::kFloat);
  const at::Tensor matrix =
      at::arange(6, at::kDouble).view({2, 3}).t();  // not contiguous
  pack(flat, {{matrix, 1, 6}, {at::Tensor(), 8, 2}});
  const at::Tensor right = at::full({12}, -1.0, at::kFloat);
  right.narrow(0, 1, 6).copy_(matrix.contiguous().view(-1));
  right.narrow(0, 8, 2).zero_();
  EXPECT_TRUE(at::equal(flat, right));
}

TEST(Pack, refuses_what_does_not_fit) {
  const at::Tensor flat = at::zeros({12}, at::kFloat);
  const at::Tensor three = at::zeros({3}, at::kFloat);
  EXPECT_EQ(test::message_of(
                [&] {
                  pack(flat, {{three, 10, 3}});
                },
                ExitCode::kFailure),
            "a part of 3 elements from 10 on does not go into a flat tensor of "
            "12");
  EXPECT_THROW(pack(flat, {{three, 0, 4}}), Error);
  EXPECT_THROW(pack(flat, {{three, -1, 3}}), Error);
}

}  // namespace
}  // namespace osdn::ops
