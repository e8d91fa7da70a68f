// The times of the delta rule's kernels, whole and one by one; a DeltaRuleSpeed
// filter runs these alone. They print and judge nothing.

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <vector>

#include "gpu/device_memory.h"
#include "gpu/timing.h"
#include "kernels/delta_rule/layout.h"

namespace osdn::test {
namespace {

using kernels::DeltaRuleGate;
using kernels::Element;

struct SpeedRow {
  const char* name;
  std::int64_t documents, tokens, heads, K, V;
  DeltaRuleGate gate;
  bool separate_key;
  double peer_forward, peer_both;  ///< ms, 0: not known
  kernels::DeltaRuleVersion version = kernels::DeltaRuleVersion::kChunk;
};

/// Random tensors of one shape, bf16, all on the device.
class SpeedProblem {
 public:
  explicit SpeedProblem(const SpeedRow& row) {
    const std::int64_t T = row.documents * row.tokens;
    kernels::DeltaRuleInputs& in = fwd.in;
    in.shape = {T, row.documents, row.heads, row.heads, row.K, row.V};
    in.gate = row.gate;
    in.version = row.version;
    in.q = half(T * row.heads * row.K);
    in.k = half(T * row.heads * row.K);
    if (row.separate_key) in.k_write = half(T * row.heads * row.K);
    in.v = half(T * row.heads * row.V);
    in.beta = single(T * row.heads, 0, 1);
    if (row.gate != DeltaRuleGate::kNone) {
      in.g = single(
          T * row.heads * (row.gate == DeltaRuleGate::kPerChannel ? row.K : 1),
          -0.1f, 0);
    }
    std::vector<std::int64_t> offsets;
    for (std::int64_t i = 0; i <= row.documents; ++i) {
      offsets.push_back(i * row.tokens);
    }
    buffers_.emplace_back(offsets.size() * 8);
    buffers_.back().upload(offsets);
    in.cu_seqlens = buffers_.back().as<std::int64_t>();
    fwd.o = empty(T * row.heads * row.V * 2);
    in.saved = empty(kernels::delta_rule_saved_bytes(in));
    in.workspace = empty(kernels::delta_rule_fwd_workspace_bytes(fwd));
    bwd.in = in;
    bwd.grad_o = half(T * row.heads * row.V);
    bwd.grad_q = empty(T * row.heads * row.K * 2);
    bwd.grad_k = empty(T * row.heads * row.K * 2);
    if (row.separate_key) bwd.grad_k_write = empty(T * row.heads * row.K * 2);
    bwd.grad_v = empty(T * row.heads * row.V * 2);
    bwd.grad_beta = static_cast<float*>(empty(T * row.heads * 4));
    if (in.g != nullptr) {
      bwd.grad_g = static_cast<float*>(
          empty(T * row.heads * 4 *
                (row.gate == DeltaRuleGate::kPerChannel ? row.K : 1)));
    }
    bwd.in.workspace = empty(kernels::delta_rule_bwd_workspace_bytes(bwd));
  }
  kernels::DeltaRuleFwdParams fwd;
  kernels::DeltaRuleBwdParams bwd;

 private:
  void* empty(std::int64_t bytes) {
    buffers_.emplace_back(static_cast<std::size_t>(bytes));
    return buffers_.back().as<void>();
  }
  void* half(std::int64_t count) {
    void* at = empty(count * 2);
    fill_normal_bf16(at, count, ++seed_);
    return at;
  }
  const float* single(std::int64_t count, float low, float high) {
    auto* at = static_cast<float*>(empty(count * 4));
    fill_uniform(at, count, low, high, ++seed_);
    return at;
  }
  std::vector<DeviceBuffer> buffers_;
  unsigned seed_ = 0;
};

TEST(DeltaRuleSpeed, table) {
  const double copy = copy_rate();
  std::printf("device-to-device copy %.2f TB/s, read and written\n",
              copy / 1e12);
  const auto none = DeltaRuleGate::kNone, head = DeltaRuleGate::kPerHead;
  const auto channel = DeltaRuleGate::kPerChannel;
  const SpeedRow table[] = {
      {"DeltaNet 340m", 16, 4096, 8, 128, 128, none, false, 1.15, 3.39},
      {"DeltaNet 340m, write key", 16, 4096, 8, 128, 128, none, true, 0, 0},
      {"DeltaNet 1.3b", 8, 4096, 16, 128, 128, none, false, 1.32, 3.72},
      {"DeltaNet long", 1, 32768, 16, 128, 128, none, false, 1.67, 4.86},
      {"DeltaNet 340m, 32 x 2048", 32, 2048, 8, 128, 128, none, false, 1.16,
       3.66},
      {"GDN 340m", 16, 4096, 6, 128, 256, head, false, 1.10, 4.51},
      {"KDA 340m", 16, 4096, 8, 128, 128, channel, false, 1.88, 9.64},
      {"8 heads, 256 x 64", 16, 4096, 8, 256, 64, none, false, 0, 0},
      {"4 heads, 256 x 128", 16, 4096, 4, 256, 128, none, false, 0, 0},
      {"4 heads, 256 x 256", 16, 4096, 4, 256, 256, none, false, 0, 0},
      {"256 x 128, write key", 16, 4096, 4, 256, 128, none, true, 0, 0},
      {"256 x 128, gate per head", 16, 4096, 4, 256, 128, head, false, 0, 0},
      {"256 x 128, gate per channel", 16, 4096, 4, 256, 128, channel, false, 0,
       0},
      {"16 heads, 256 x 128, long", 1, 32768, 16, 256, 128, none, false, 0, 0},
      {"4 heads, 256 x 128, plain", 16, 4096, 4, 256, 128, none, false, 0, 0,
       kernels::DeltaRuleVersion::kPlain},
  };
  std::printf("%-28s %8s %8s %8s | peer fwd, fwd+bwd (ms)\n", "shape", "fwd",
              "bwd", "fwd+bwd");
  for (const SpeedRow& row : table) {
    SpeedProblem problem(row);
    const double forward = median_ms(
        [&] { kernels::delta_rule_fwd(problem.fwd, nullptr); }, row.name);
    const double backward = median_ms(
        [&] { kernels::delta_rule_bwd(problem.bwd, nullptr); }, row.name);
    std::printf("%-28s %8.3f %8.3f %8.3f | %.2f %.2f\n", row.name, forward,
                backward, forward + backward, row.peer_forward, row.peer_both);
    std::fflush(stdout);
  }
}

/// Each kernel alone, with the bytes that it has to move.
TEST(DeltaRuleSpeed, kernel_by_kernel) {
  using kernels::delta_rule::Args;
  const double copy = copy_rate();
  const auto none = DeltaRuleGate::kNone, channel = DeltaRuleGate::kPerChannel;
  const SpeedRow rows_of_table[] = {
      {"DeltaNet 340m", 16, 4096, 8, 128, 128, none, false, 0, 0},
      {"DeltaNet 340m, write key", 16, 4096, 8, 128, 128, none, true, 0, 0},
      {"DeltaNet long", 1, 32768, 16, 128, 128, none, false, 0, 0},
      {"KDA 340m", 16, 4096, 8, 128, 128, channel, false, 0, 0},
      {"8 heads, 256 x 64", 16, 4096, 8, 256, 64, none, false, 0, 0},
      {"4 heads, 256 x 128", 16, 4096, 4, 256, 128, none, false, 0, 0},
      {"4 heads, 256 x 256", 16, 4096, 4, 256, 256, none, false, 0, 0},
      {"256 x 128, write key", 16, 4096, 4, 256, 128, none, true, 0, 0},
      {"256 x 128, gate per channel", 16, 4096, 4, 256, 128, channel, false, 0,
       0}};
  for (const SpeedRow& row : rows_of_table) {
    SpeedProblem problem(row);
    kernels::delta_rule_fwd(problem.fwd, nullptr);
    kernels::delta_rule_bwd(problem.bwd, nullptr);
    const Args args =
        kernels::delta_rule::bind_backward(problem.fwd, problem.bwd);
    const auto& version = kernels::delta_rule::kChunkVersion;
    // Bytes per token and head; decayed operands count as a write key.
    const bool decayed = row.gate == channel;
    const double heads = static_cast<double>(row.documents * row.tokens) *
                         static_cast<double>(row.heads);
    const double K = static_cast<double>(row.K), V = static_cast<double>(row.V);
    const double key = 2 * K, value = 2 * V;          // a row of k, of v
    const double pair = 128, state = 2 * K * V / 64;  // of n, of S
    const double kt = row.separate_key ? key : 0;
    const double kd = decayed ? key : kt;
    const auto bf16 = Element::kBF16;
    const struct {
      const char* name;
      std::function<void()> run;
      double bytes;
    } list[] = {
        {"F1 prepare", [&] { version.prepare(args, bf16, nullptr); },
         2 * key + 2 * pair + kt + (decayed ? 4 * K + 3 * key : 0)},
        {"F2 scan", [&] { version.scan(args, bf16, nullptr); },
         2 * key + 2 * pair + 2 * value + kd},
        {"B1 states",
         [&] { version.backward_scans(args, bf16, true, false, nullptr); },
         key + pair + 2 * value + state + kd},
        {"B2 reverse",
         [&] { version.backward_scans(args, bf16, false, true, nullptr); },
         2 * key + 2 * pair + 2 * value + state + kd},
        {"B1 and B2",
         [&] { version.backward_scans(args, bf16, true, true, nullptr); },
         3 * key + 3 * pair + 4 * value + 2 * state + 2 * kd},
        {"B3 gradients", [&] { version.gradients(args, bf16, nullptr); },
         4 * key + 4 * value + 2 * state + 2 * kt + (decayed ? 8 * K : 0)}};
    std::printf("%s\n", row.name);
    for (const auto& kernel : list) {
      const double ms = median_ms(kernel.run, kernel.name);
      std::printf("  %-14s %7.3f ms, bytes alone %.3f ms\n", kernel.name, ms,
                  1e3 * heads * kernel.bytes / copy);
    }
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace osdn::test
