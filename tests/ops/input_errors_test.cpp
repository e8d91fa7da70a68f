// Wrong inputs are refused with the operator's, the tensor's name, and both
// what was found and what fits.

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "osdn/core/error.h"
#include "osdn/ops/delta_rule.h"
#include "osdn/ops/linear_cross_entropy.h"
#include "osdn/ops/preconditioner.h"
#include "osdn/ops/short_conv.h"

namespace osdn::ops {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Matcher;

void expect_refused(const std::function<void()>& call,
                    const Matcher<std::string>& message) {
  try {
    call();
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(std::string(error.what()), message);
  }
}

DeltaRuleInputs good_delta_rule() {
  DeltaRuleInputs in;
  in.q = at::zeros({6, 2, 8});
  in.k = at::zeros({6, 2, 8});
  in.k_write = at::zeros({6, 4, 8});
  in.v = at::zeros({6, 4, 5});
  in.beta = at::zeros({6, 4});
  in.g = at::zeros({6, 4, 8});
  in.state0 = at::zeros({1, 4, 8, 5});
  return in;
}

TEST(InputErrors, delta_rule_names_the_tensor_that_does_not_fit) {
  const Documents documents = Documents::single(6);
  EXPECT_NO_THROW(delta_rule(good_delta_rule(), documents));
  const auto refused = [&](at::Tensor DeltaRuleInputs::*member,
                           const at::Tensor& value,
                           const Matcher<std::string>& message) {
    DeltaRuleInputs in = good_delta_rule();
    in.*member = value;
    expect_refused([&] { delta_rule(in, documents); },
                   AllOf(HasSubstr("delta_rule"), message));
  };
  refused(&DeltaRuleInputs::q, {}, HasSubstr("q [T, H, K]"));
  refused(&DeltaRuleInputs::k, at::zeros({6, 2, 7}),
          AllOf(HasSubstr("k has shape [6, 2, 7]"), HasSubstr("[6, 2, 8]")));
  refused(&DeltaRuleInputs::k, {}, HasSubstr("k is missing"));
  refused(&DeltaRuleInputs::k_write, at::zeros({6, 2, 8}),
          AllOf(HasSubstr("k_write"), HasSubstr("[6, 4, 8]")));
  refused(&DeltaRuleInputs::v, at::zeros({6, 3, 5}),
          AllOf(HasSubstr("3 value heads"), HasSubstr("2 key heads")));
  refused(&DeltaRuleInputs::beta, at::zeros({6, 4}, at::kDouble),
          AllOf(HasSubstr("beta is Double"), HasSubstr("expected Float")));
  refused(&DeltaRuleInputs::g, at::zeros({6, 2}),
          AllOf(HasSubstr("g has shape [6, 2]"), HasSubstr("[6, 4]")));
  refused(&DeltaRuleInputs::state0, at::zeros({2, 4, 8, 5}),
          AllOf(HasSubstr("state0"), HasSubstr("[1, 4, 8, 5]")));
  refused(&DeltaRuleInputs::q, at::zeros({6, 2, 8}, at::kBFloat16),
          HasSubstr("BFloat16"));
  expect_refused(
      [] { delta_rule(good_delta_rule(), Documents::single(5)); },
      AllOf(HasSubstr("cu_seqlens ends at 5"), HasSubstr("6 tokens")));
}

TEST(InputErrors, preconditioner_names_the_tensor_that_does_not_fit) {
  const PreconditionerInputs good{at::zeros({6, 2, 8}), at::zeros({6, 4}),
                                  at::zeros({6, 4}), at::zeros({4, 8})};
  const Documents documents = Documents::single(6);
  EXPECT_NO_THROW(preconditioner(good, documents, {}));
  const auto refused = [&](at::Tensor PreconditionerInputs::*member,
                           const at::Tensor& value,
                           const Matcher<std::string>& message) {
    PreconditionerInputs in = good;
    in.*member = value;
    expect_refused([&] { preconditioner(in, documents, {}); },
                   AllOf(HasSubstr("preconditioner"), message));
    expect_refused([&] { preconditioner_trace(in, documents, {}); },
                   AllOf(HasSubstr("preconditioner"), message));
  };
  refused(&PreconditionerInputs::k, {}, HasSubstr("k [T, H, K]"));
  refused(&PreconditionerInputs::beta, at::zeros({6, 3}),
          HasSubstr("3 value heads"));
  refused(&PreconditionerInputs::r, at::zeros({5, 4}),
          AllOf(HasSubstr("r has shape [5, 4]"), HasSubstr("[6, 4]")));
  refused(&PreconditionerInputs::d0, {}, HasSubstr("d0 is missing"));
  refused(&PreconditionerInputs::d0, at::zeros({2, 4, 8}),
          AllOf(HasSubstr("d0"), HasSubstr("[1, 4, 8]")));
  expect_refused([&] { preconditioner(good, Documents::single(7), {}); },
                 HasSubstr("cu_seqlens ends at 7"));
}

TEST(InputErrors, short_conv_names_the_tensor_that_does_not_fit) {
  const Documents documents = Documents::single(6);
  const auto call = [&](const at::Tensor& x, const at::Tensor& weight,
                        const at::Tensor& state0) {
    return [=] { short_conv({x, weight, state0}, documents); };
  };
  const at::Tensor x = at::zeros({6, 3});
  EXPECT_NO_THROW(call(x, at::zeros({3, 1, 4}), at::zeros({1, 3, 3}))());
  expect_refused(call({}, at::zeros({3, 1, 4}), {}), HasSubstr("x [T, C]"));
  expect_refused(call(x, at::zeros({3, 1, 9}), {}),
                 AllOf(HasSubstr("9 taps"), HasSubstr("1 to 8")));
  expect_refused(call(x, at::zeros({2, 1, 4}), {}),
                 AllOf(HasSubstr("weight"), HasSubstr("[3, 1, 4]")));
  expect_refused(call(x, at::zeros({3, 1, 4}), at::zeros({1, 3, 4})),
                 AllOf(HasSubstr("state0"), HasSubstr("[1, 3, 3]")));
  expect_refused(call(at::zeros({5, 3}), at::zeros({3, 1, 4}), {}),
                 AllOf(HasSubstr("cu_seqlens ends at 6"), HasSubstr("5")));
}

TEST(InputErrors, head_loss_names_the_tensor_that_does_not_fit) {
  const at::Tensor hidden = at::zeros({6, 4}), weight = at::zeros({9, 4});
  const at::Tensor labels = at::zeros({6}, at::kLong);
  EXPECT_NO_THROW(linear_cross_entropy(hidden, weight, labels));
  expect_refused(
      [&] {
        linear_cross_entropy(hidden, at::zeros({9, 5}), labels);
      },
      AllOf(HasSubstr("weight"), HasSubstr("[9, 4]")));
  expect_refused(
      [&] { linear_cross_entropy(hidden, weight, at::zeros({6}, at::kInt)); },
      HasSubstr("labels must be int64 [6]"));
  expect_refused(
      [&] { linear_token_scores(hidden, weight, labels.narrow(0, 0, 5)); },
      HasSubstr("labels must be int64 [6]"));
}

TEST(InputErrors, documents_name_the_boundary) {
  expect_refused([] { Documents({}); }, HasSubstr("at least two"));
  expect_refused([] { Documents({1, 4}); }, HasSubstr("start with 0"));
  expect_refused(
      [] {
        Documents({0, 4, 3, 9});
      },
      AllOf(HasSubstr("cu_seqlens[2] = 3"), HasSubstr("cu_seqlens[1] = 4")));
}

}  // namespace
}  // namespace osdn::ops
