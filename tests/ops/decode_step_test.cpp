// The decoding step on the CPU: tokens one by one give what the separate
// operators give for whole sequences, and wrong inputs are refused.

#include "osdn/ops/decode_step.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "ops/decode_step_cases.h"
#include "osdn/core/error.h"

namespace osdn::test {
namespace {

using testing::HasSubstr;

TEST(DecodeStep, tokens_one_by_one_equal_the_whole_sequence) {
  for (const DecodeStepCase& c : decode_step_cases()) {
    const DecodeStepProblem p = draw_decode_step(c, 5, at::kDouble);
    const DecodeStepResult whole = run_whole(c, p);
    const DecodeStepResult steps = run_steps(c, p, at::kCPU, at::kDouble);
    // The chunk form of five tokens rounds elsewhere than five steps do.
    EXPECT_LT(relative_rms(steps.o, whole.o), 1e-12) << c.name;
    EXPECT_LT(relative_rms(steps.state.state, whole.state.state), 1e-12)
        << c.name;
    if (c.preconditioner) {
      EXPECT_LT(relative_rms(steps.state.d, whole.state.d), 1e-12) << c.name;
    }
    EXPECT_TRUE(at::equal(steps.state.conv_q, whole.state.conv_q)) << c.name;
    EXPECT_TRUE(at::equal(steps.state.conv_k, whole.state.conv_k)) << c.name;
    EXPECT_TRUE(at::equal(steps.state.conv_v, whole.state.conv_v)) << c.name;
  }
}

TEST(DecodeStep, leaves_the_given_state_as_it_is) {
  const DecodeStepCase c = decode_step_cases()[2];
  const DecodeStepProblem p = draw_decode_step(c, 1, at::kDouble);
  const DecodeStepProblem same = draw_decode_step(c, 1, at::kDouble);
  run_steps(c, p, at::kCPU, at::kDouble);
  EXPECT_TRUE(at::equal(p.state.state, same.state.state));
  EXPECT_TRUE(at::equal(p.state.d, same.state.d));
  EXPECT_TRUE(at::equal(p.state.conv_k, same.state.conv_k));
}

TEST(DecodeStep, in_place_gives_the_same_bits) {
  for (const DecodeStepCase& c : decode_step_cases()) {
    expect_same_in_place(c, at::kCPU, at::kFloat);
  }
}

void expect_refused(const DecodeStepProblem& p,
                    const ops::DecodeStepOptions& options,
                    const std::string& message) {
  try {
    ops::decode_step(p.in, p.state, options);
    ADD_FAILURE() << "accepted: " << message;
  } catch (const Error& error) {
    EXPECT_THAT(std::string(error.what()), HasSubstr("decode_step: "));
    EXPECT_THAT(std::string(error.what()), HasSubstr(message));
  }
}

TEST(DecodeStep, names_the_tensor_that_does_not_fit) {
  const DecodeStepCase c = decode_step_cases()[2];
  const DecodeStepProblem good = draw_decode_step(c, 1, at::kDouble);
  EXPECT_NO_THROW(ops::decode_step(good.in, good.state, c.options));
  const at::Tensor none;
  const auto refused =
      [&](const std::function<void(DecodeStepProblem&)>& change,
          const std::string& message) {
        DecodeStepProblem p = good;
        change(p);
        expect_refused(p, c.options, message);
      };
  refused([](auto& p) { p.in.q = p.in.q.narrow(1, 0, 100); },
          "rows of q of 100 channels");
  refused([&](auto& p) { p.in.k = none; }, "k is missing");
  refused([](auto& p) { p.in.v = p.in.v.narrow(0, 0, 2); }, "v has shape");
  refused([&](auto& p) { p.state.conv_k = none; }, "conv_k is missing");
  refused([](auto& p) { p.state.d = p.state.d.select(0, 0); }, "d has shape");
  refused([](auto& p) { p.in.gate = p.in.gate.to(at::kFloat); },
          "gate is Float");
  refused([&](auto& p) { p.in.retention = p.in.retention_bias = none; },
          "exactly when r is their sigmoid");
  refused([](auto& p) { p.in.decay = p.in.beta; }, "A_log is missing");
  refused([](auto& p) { p.in.q = p.in.q.clone().requires_grad_(true); },
          "it has no gradient");
  DecodeStepProblem tied = good;
  tied.in.retention = tied.in.retention_bias = none;
  ops::DecodeStepOptions options = c.options;
  options.retention = ops::DecodeRetention::kTied;
  expect_refused(tied, options, "needs a decay [N, HV]");
}

}  // namespace
}  // namespace osdn::test
