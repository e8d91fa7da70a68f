// The decoding step's kernel on the CPU: every index, mask and kind of gate
// against float64.

#include <gtest/gtest.h>

#include "gpu/decode_cases.h"

namespace osdn::test {
namespace {

TEST(EmulatedDecode, steps_agree_with_float64) {
  for (const DecodeCase& c : decode_cases()) {
    for (const std::string& failure : check_decode(c, 3)) {
      ADD_FAILURE() << failure;
    }
  }
}

/// A call that is complete but never run.
kernels::DecodeParams complete() {
  alignas(16) static float memory[4];
  kernels::DecodeParams p;
  p.shape = {1, 2, 2, 64, 64, 4, kernels::Element::kBF16};
  for (kernels::DecodeConv* conv : {&p.q, &p.k, &p.v}) {
    *conv = {memory, memory, memory, memory};
  }
  p.state = memory;
  p.state_out = memory;
  p.gate = memory;
  p.norm_weight = memory;
  p.o = memory;
  return p;
}

TEST(EmulatedDecode, says_what_it_cannot_do) {
  using kernels::DecodeDecay;
  using kernels::DecodeRetention;
  ASSERT_EQ(kernels::decode_unsupported(complete()), nullptr);
  const auto refused = [](const auto& change, const char* part) {
    kernels::DecodeParams p = complete();
    change(p);
    const char* reason = kernels::decode_unsupported(p);
    ASSERT_NE(reason, nullptr) << part;
    EXPECT_NE(std::string(reason).find(part), std::string::npos) << reason;
    EXPECT_THROW(kernels::decode(p, nullptr), std::runtime_error) << part;
  };
  refused([](auto& p) { p.shape.key_width = 12; }, "multiples of 8");
  refused([](auto& p) { p.shape.value_width = 264; }, "up to 256");
  refused([](auto& p) { p.shape.value_heads = 3; }, "multiple of key_heads");
  refused([](auto& p) { p.shape.conv_width = 9; }, "2 to 8");
  refused([](auto& p) { p.shape.value_heads = 4; }, "share them");
  refused([](auto& p) { p.v.past = nullptr; }, "past");
  refused([](auto& p) { ++p.state; }, "aligned");
  refused([](auto& p) { p.gate = nullptr; }, "activation");
  refused([](auto& p) { p.gates.decay = DecodeDecay::kSoftplus; }, "a_log");
  refused(
      [](auto& p) {
        p.preconditioner.d = p.preconditioner.d_out = p.state_out;
        p.preconditioner.retention = DecodeRetention::kTied;
      },
      "decay per head");
}

}  // namespace
}  // namespace osdn::test
