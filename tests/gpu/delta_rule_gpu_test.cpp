// The delta rule's kernels on the GPU: against float64, against version 0, and
// bit for bit where bits must agree.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

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
       check_delta_rule(c, version, bounds, chunk, std::random_device{}())) {
    ADD_FAILURE() << failure;
  }
  std::fflush(stdout);
}

/// Twice the bounds where correlated keys amplify the rounding of operands.
const DeltaRuleBounds kLoose = {1e-2, 1.6e-2, 2e-2};
const DeltaRuleBounds kFp32 = {2e-5, 4e-5, 5e-4};

TEST(DeltaRuleChunk, lengths) {
  DeltaRuleCase c;
  c.value_width = 128;
  c.key_heads = c.value_heads = 2;
  for (const std::int64_t K : {128, 256}) {
    for (const std::int64_t T : {1, 2, 15, 63, 64, 65, 127, 1000, 4096}) {
      c.key_width = K;
      c.lengths = {T};
      c.separate_key = T % 2 == 0;
      c.gate = T % 3 == 0 ? DeltaRuleGate::kPerHead : DeltaRuleGate::kNone;
      c.name = std::to_string(K) + "x128 T " + std::to_string(T);
      // A handful of numbers has no mean to speak of.
      expect_right(c, DeltaRuleVersion::kChunk,
                   T < 15 ? kLoose : DeltaRuleBounds{});
    }
  }
}

TEST(DeltaRuleChunk, K5_widths) {
  DeltaRuleCase c;
  c.lengths = {200, 77};
  for (const std::int64_t K : {64, 128, 256}) {
    for (const std::int64_t V : {64, 128, 192, 256}) {
      for (const DeltaRuleGate gate :
           {DeltaRuleGate::kNone, DeltaRuleGate::kPerHead,
            DeltaRuleGate::kPerChannel}) {
        for (const bool separate : {false, true}) {
          c.key_width = K;
          c.value_width = V;
          c.separate_key = separate;
          c.gate = gate;
          c.name = std::to_string(K) + "x" + std::to_string(V) + " gate " +
                   std::to_string(static_cast<int>(gate)) +
                   (separate ? " write key" : "");
          expect_right(c, DeltaRuleVersion::kChunk);
        }
      }
    }
  }
}

TEST(DeltaRuleChunk, V4_documents_empty_and_short) {
  for (const std::int64_t K : {128, 256}) {
    DeltaRuleCase c;
    c.name = "documents 0,0,5,0,64,130,1,0";
    c.lengths = {0, 0, 5, 0, 64, 130, 1, 0};
    c.key_width = K;
    c.value_width = 128;
    c.separate_key = true;
    expect_right(c, DeltaRuleVersion::kChunk);
    c.name = "all documents empty";
    c.lengths = {0, 0};
    c.separate_key = false;
    expect_right(c, DeltaRuleVersion::kChunk);
  }
}

/// What correlated keys amplify is the rounding of bf16 operands; the limits
/// are those of docs/kernels/delta_rule.md.
TEST(DeltaRuleChunk, K4_correlated_keys) {
  DeltaRuleCase c;
  c.lengths = {512};
  c.value_width = 128;
  const DeltaRuleBounds limits[] = {
      {6e-3, 8e-3, 1e-2}, {1.5e-2, 1.2e-2, 2e-2}, {3e-2, 2.5e-2, 4e-2}};
  const double correlations[] = {0.1, 0.5, 0.9};
  for (const std::int64_t K : {128, 256}) {
    for (int i = 0; i < 3; ++i) {
      for (const double beta_max : {0.0, 1.0, 2.0}) {
        c.key_width = K;
        c.correlation = correlations[i];
        c.beta_max = beta_max;
        c.name = "K " + std::to_string(K) + " k.k " +
                 std::to_string(c.correlation).substr(0, 3) + " beta to " +
                 std::to_string(static_cast<int>(beta_max));
        expect_right(c, DeltaRuleVersion::kChunk, limits[i]);
      }
    }
  }
}

TEST(DeltaRuleChunk, K1_K8_decays) {
  DeltaRuleCase c;
  c.lengths = {300, 39};
  c.value_width = 128;
  c.gate = DeltaRuleGate::kPerHead;
  for (const std::int64_t K : {128, 256}) {
    for (const double decay : {0.0, -0.01, -20.0, -1000.0}) {
      for (const bool separate : {false, true}) {
        c.key_width = K;
        c.log_decay = decay;
        c.separate_key = separate;
        c.name = "K " + std::to_string(K) + " decay " +
                 std::to_string(static_cast<int>(decay * 100)) + "/100" +
                 (separate ? " write key" : "");
        expect_right(c, DeltaRuleVersion::kChunk, kLoose);
      }
    }
  }
}

TEST(DeltaRuleChunk, K1_K8_decays_per_channel) {
  DeltaRuleCase c;
  c.lengths = {300, 39};
  c.gate = DeltaRuleGate::kPerChannel;
  for (const double decay : {0.0, -0.1, -5.0, -20.0, -1000.0}) {
    for (const bool separate : {false, true}) {
      for (const std::int64_t K : {separate ? 64 : 128, 256}) {
        c.key_width = K;
        c.value_width = separate ? 192 : 128;
        c.log_decay = decay;
        c.separate_key = separate;
        c.name = "K " + std::to_string(K) + " channel decay " +
                 std::to_string(static_cast<int>(decay * 10)) + "/10" +
                 (separate ? " write key" : "");
        // dbeta is small where the decay is strong.
        expect_right(c, DeltaRuleVersion::kChunk, kLoose);
      }
    }
  }
}

TEST(DeltaRuleChunk, grouped_value_heads) {
  DeltaRuleCase c;
  c.lengths = {150, 0, 64, 7};
  c.key_heads = 2;
  c.value_heads = 6;
  c.value_width = 128;
  c.log_decay = -1;
  for (const std::int64_t K : {128, 256}) {
    for (const DeltaRuleGate gate :
         {DeltaRuleGate::kPerHead, DeltaRuleGate::kPerChannel}) {
      for (const bool separate : {false, true}) {
        c.key_width = K;
        c.gate = gate;
        c.separate_key = separate;
        c.name = "K " + std::to_string(K) + " grouped, gate " +
                 std::to_string(static_cast<int>(gate)) +
                 (separate ? ", write key" : "");
        expect_right(c, DeltaRuleVersion::kChunk);
      }
    }
  }
}

TEST(DeltaRuleChunk, K7_absent_inputs) {
  DeltaRuleCase c;
  c.lengths = {150};
  c.value_width = 128;
  c.states = c.l2_norm = false;
  for (const std::int64_t K : {64, 256}) {
    c.key_width = K;
    c.name = "K " + std::to_string(K) + " no states, keys not normalised";
    expect_right(c, DeltaRuleVersion::kChunk);
  }
}

TEST(DeltaRulePlain, every_gate_and_type) {
  for (const Element element : {Element::kF32, Element::kBF16}) {
    for (const DeltaRuleGate gate :
         {DeltaRuleGate::kNone, DeltaRuleGate::kPerHead,
          DeltaRuleGate::kPerChannel}) {
      DeltaRuleCase c;
      c.element = element;
      c.gate = gate;
      c.lengths = {100, 0, 65};
      c.key_width = gate == DeltaRuleGate::kNone ? 256 : 40;
      c.value_width = gate == DeltaRuleGate::kPerHead ? 256 : 24;
      c.key_heads = 2;
      c.value_heads = 4;
      c.separate_key = gate != DeltaRuleGate::kPerHead;
      c.name = std::to_string(c.key_width) + "x" +
               std::to_string(c.value_width) +
               (element == Element::kF32 ? " fp32" : " bf16");
      expect_right(c, DeltaRuleVersion::kPlain,
                   element == Element::kF32 ? kFp32 : DeltaRuleBounds{});
    }
  }
}

TEST(DeltaRulePlain, K1_channel_gate_of_minus_1000_at_full_width) {
  DeltaRuleCase c;
  c.name = "256x256 channel gate -1000";
  c.element = Element::kF32;
  c.gate = DeltaRuleGate::kPerChannel;
  c.lengths = {130};
  c.key_width = c.value_width = 256;
  c.log_decay = -1000;
  expect_right(c, DeltaRuleVersion::kPlain, {2e-4, 2e-4, 1e-3});
}

// ---- bits ----

DeltaRuleCase bit_case() {
  DeltaRuleCase c;
  c.lengths = {100, 150};
  c.key_width = c.value_width = 128;
  c.key_heads = c.value_heads = 2;
  c.gate = DeltaRuleGate::kPerHead;
  return c;
}

std::vector<std::uint16_t> rows(const DeltaRuleRun& run, const DeltaRuleCase& c,
                                std::int64_t begin, std::int64_t end) {
  const auto all = run.o.download<std::uint16_t>();
  const std::int64_t width = c.value_heads * c.value_width;
  return {all.begin() + begin * width, all.begin() + end * width};
}

TEST(DeltaRuleBits, V1_documents_do_not_see_each_other) {
  const DeltaRuleCase c = bit_case();
  DeltaRuleProblem p = make_problem(c, 1);
  DeltaRuleRun before(c, p, DeltaRuleVersion::kAuto, false);
  before.run();
  for (std::int64_t i = 0; i < 100 * 2 * 128; ++i) {
    std::swap(p.in.k[static_cast<std::size_t>(i)],
              p.in.q[static_cast<std::size_t>(i)]);
  }
  DeltaRuleRun after(c, p, DeltaRuleVersion::kAuto, false);
  after.run();
  EXPECT_NE(rows(before, c, 0, 100), rows(after, c, 0, 100));
  EXPECT_EQ(rows(before, c, 100, 250), rows(after, c, 100, 250));
  const auto gk1 = before.grad_k.download<std::uint16_t>();
  const auto gk2 = after.grad_k.download<std::uint16_t>();
  EXPECT_TRUE(
      std::equal(gk1.begin() + 100 * 256, gk1.end(), gk2.begin() + 100 * 256));
}

TEST(DeltaRuleBits, K3_outputs_do_not_see_later_tokens) {
  const DeltaRuleCase c = bit_case();
  DeltaRuleProblem p = make_problem(c, 2);
  DeltaRuleRun before(c, p, DeltaRuleVersion::kAuto, false);
  before.run();
  const std::size_t from = 37 * 2 * 128;
  for (std::size_t i = from; i < p.in.k.size(); ++i) {
    p.in.k[i] = -p.in.k[i];
    p.in.v[i] = p.in.q[i];
  }
  for (std::size_t i = 37 * 2; i < p.in.g.size(); ++i) p.in.g[i] *= 20;
  DeltaRuleRun after(c, p, DeltaRuleVersion::kAuto, false);
  after.run();
  EXPECT_EQ(rows(before, c, 0, 37), rows(after, c, 0, 37));
  EXPECT_NE(rows(before, c, 37, 100), rows(after, c, 37, 100));
}

TEST(DeltaRuleBits, unit_write_key_and_zero_gate_are_the_plain_delta_rule) {
  DeltaRuleCase c = bit_case();
  c.separate_key = c.unit_write = true;
  c.log_decay = 0;
  const DeltaRuleProblem p = make_problem(c, 3);
  DeltaRuleRun full(c, p, DeltaRuleVersion::kChunk, false);
  full.run();
  DeltaRuleCase bare = c;
  bare.separate_key = false;
  bare.gate = DeltaRuleGate::kNone;
  DeltaRuleProblem q = p;
  q.in.k_write.clear();
  q.in.g.clear();
  DeltaRuleRun less(bare, q, DeltaRuleVersion::kChunk, false);
  less.run();
  EXPECT_EQ(full.o.download<std::uint16_t>(), less.o.download<std::uint16_t>());
  EXPECT_EQ(full.state_T.download<float>(), less.state_T.download<float>());
  EXPECT_EQ(full.grad_q.download<std::uint16_t>(),
            less.grad_q.download<std::uint16_t>());
  EXPECT_EQ(full.grad_v.download<std::uint16_t>(),
            less.grad_v.download<std::uint16_t>());
}

/// One token a document: o = K^-1/2 beta <q, k> v, and no state goes out.
TEST(DeltaRuleBits, K9_seventy_thousand_documents) {
  DeltaRuleCase c;
  c.lengths.assign(70000, 1);
  c.lengths[5] = 0;
  c.states = c.l2_norm = false;
  c.key_heads = c.value_heads = 2;
  const DeltaRuleProblem p = make_problem(c, 4);
  DeltaRuleRun run(c, p, DeltaRuleVersion::kChunk, false);
  run.fwd.state_T = nullptr;
  run.bwd.grad_state0 = nullptr;
  run.run();
  reference::Values o(p.in.v.size());
  for (std::size_t row = 0; row < o.size() / 64; ++row) {
    double dot = 0;
    for (std::size_t i = 0; i < 64; ++i) {
      dot += p.in.q[row * 64 + i] * p.in.k[row * 64 + i];
    }
    for (std::size_t i = 0; i < 64; ++i) {
      o[row * 64 + i] = p.in.beta[row] * dot * p.in.v[row * 64 + i] / 8;
    }
  }
  EXPECT_LT(relative_rms(to_host(run.o, c.element), o), 5e-3);
  EXPECT_TRUE(run.guards_are_whole());
}

}  // namespace
}  // namespace osdn::test
