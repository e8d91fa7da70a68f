// The delta rule's kernels on the CPU: every index, fragment layout and mask
// of both versions against float64, at sizes that a CPU can follow.

#include <gtest/gtest.h>

#include "gpu/delta_rule_checks.h"

namespace osdn::test {
namespace {

using kernels::DeltaRuleGate;
using kernels::DeltaRuleVersion;
using kernels::Element;

void expect_right(const DeltaRuleCase& c, DeltaRuleVersion version,
                  const DeltaRuleBounds& bounds = {}) {
  const bool chunk = version == DeltaRuleVersion::kChunk;
  for (const std::string& failure :
       check_delta_rule(c, version, bounds, chunk, 7)) {
    ADD_FAILURE() << failure;
  }
}

const DeltaRuleBounds kFp32 = {1e-5, 2e-5, 1e-4};

TEST(EmulatedPlain, K5_widths_that_nobody_tuned_in_fp32) {
  DeltaRuleCase c;
  c.element = Element::kF32;
  c.lengths = {100, 0, 1, 64};
  c.key_width = 24;
  c.value_width = 40;
  c.value_heads = 2;
  c.name = "24x40, two value heads a key head";
  expect_right(c, DeltaRuleVersion::kPlain, kFp32);
  c.name = "24x40, gate per head, write key";
  c.gate = DeltaRuleGate::kPerHead;
  c.separate_key = true;
  expect_right(c, DeltaRuleVersion::kPlain, kFp32);
  c.name = "24x40, gate per channel, write key";
  c.gate = DeltaRuleGate::kPerChannel;
  expect_right(c, DeltaRuleVersion::kPlain, kFp32);
}

TEST(EmulatedPlain, K1_runs_of_minus_1000_stay_finite) {
  DeltaRuleCase c;
  c.name = "channel gate, -1000";
  c.element = Element::kF32;
  c.lengths = {100};
  c.key_width = c.value_width = 16;
  c.gate = DeltaRuleGate::kPerChannel;
  c.log_decay = -1000;
  expect_right(c, DeltaRuleVersion::kPlain, {1e-4, 1e-4, 5e-4});
}

TEST(EmulatedPlain, K7_absent_states_are_zeros) {
  DeltaRuleCase c;
  c.name = "bf16, no states, no norm";
  c.lengths = {70};
  c.key_width = 8;
  c.value_width = 16;
  c.states = c.l2_norm = false;
  expect_right(c, DeltaRuleVersion::kPlain);
}

TEST(EmulatedChunk, no_gate) {
  DeltaRuleCase c;
  c.name = "64x64";
  c.lengths = {100, 0, 1, 64};
  expect_right(c, DeltaRuleVersion::kChunk);
  c.name = "128x128";
  c.key_width = c.value_width = 128;
  c.lengths = {130};
  expect_right(c, DeltaRuleVersion::kChunk);
}

TEST(EmulatedChunk, gate_per_head_and_write_key) {
  DeltaRuleCase c;
  c.name = "64x64, gate, write key";
  c.lengths = {100, 0, 1, 64};
  c.gate = DeltaRuleGate::kPerHead;
  c.separate_key = true;
  expect_right(c, DeltaRuleVersion::kChunk);
}

TEST(EmulatedChunk, K8_gate_per_channel) {
  DeltaRuleCase c;
  c.name = "64x64, channel gate to -5";
  c.lengths = {70, 0, 1};
  c.gate = DeltaRuleGate::kPerChannel;
  c.log_decay = -5;
  expect_right(c, DeltaRuleVersion::kChunk);
  c.name = "128x64, channel gate -1000, write key, grouped";
  c.key_width = 128;
  c.lengths = {65};
  c.value_heads = 2;
  c.log_decay = -1000;
  c.separate_key = true;
  expect_right(c, DeltaRuleVersion::kChunk);
}

/// The state over two warpgroups, keys and gradients in two parts.
TEST(EmulatedChunk, K5_keys_of_256_channels) {
  DeltaRuleCase c;
  c.name = "256x64";
  c.key_width = 256;
  c.lengths = {100, 0, 1};
  expect_right(c, DeltaRuleVersion::kChunk);
  c.name = "256x128, gate, write key, grouped";
  c.value_width = 128;
  c.lengths = {65, 7};
  c.value_heads = 2;
  c.gate = DeltaRuleGate::kPerHead;
  c.separate_key = true;
  expect_right(c, DeltaRuleVersion::kChunk);
  c.name = "256x128, gate, grouped";
  c.lengths = {65};
  c.separate_key = false;
  expect_right(c, DeltaRuleVersion::kChunk);
}

TEST(EmulatedChunk, K5_K8_keys_of_256_channels_with_a_gate_each) {
  DeltaRuleCase c;
  c.name = "256x64, channel gate to -5";
  c.key_width = 256;
  c.gate = DeltaRuleGate::kPerChannel;
  c.log_decay = -5;
  c.lengths = {70, 0, 1};
  expect_right(c, DeltaRuleVersion::kChunk);
  c.name = "256x64, channel gate -1000, write key, grouped";
  c.lengths = {65};
  c.value_heads = 2;
  c.log_decay = -1000;
  c.separate_key = true;
  expect_right(c, DeltaRuleVersion::kChunk);
}

TEST(EmulatedChunk, grouped_value_heads) {
  DeltaRuleCase c;
  c.name = "128x192, gate, grouped";
  c.lengths = {65, 15};
  c.key_width = 128;
  c.value_width = 192;
  c.value_heads = 2;
  c.gate = DeltaRuleGate::kPerHead;
  expect_right(c, DeltaRuleVersion::kChunk);
  c.name = "128x64, -1000, write key, grouped";
  c.value_width = 64;
  c.log_decay = -1000;
  c.separate_key = true;
  expect_right(c, DeltaRuleVersion::kChunk);
}

}  // namespace
}  // namespace osdn::test
