// Speed of the pointwise, row and chain kernels at the 340M shapes, against the
// measured copy rate. Prints one line a kernel; fails on a failed launch only.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>

#include "gpu/device_memory.h"
#include "gpu/timing.h"
#include "kernels/adamw/adamw.cuh"
#include "kernels/cross_entropy/cross_entropy.cuh"
#include "kernels/gates/gates.cuh"
#include "kernels/norm/gated_norm.cuh"
#include "kernels/norm/rms_norm.cuh"
#include "kernels/preconditioner/preconditioner.cuh"
#include "kernels/short_conv/short_conv.cuh"
#include "kernels/swiglu/swiglu.cuh"

namespace osdn::test {
namespace {

using namespace kernels;

constexpr std::int64_t T = 65536, kHidden = 1024, kHeads = 8, kHeadWidth = 128,
                       kMlp = 2816, kVocab = 32000, kDocuments = 16;

double ceiling() {
  static const double rate = [] {
    const double measured = copy_rate();
    std::printf("device-to-device copy: %.0f GB/s, read and written\n",
                measured / 1e9);
    return measured;
  }();
  return rate;
}

/// `bytes` is what the kernel must move at the least.
void report(const char* name, double bytes, const std::function<void()>& call) {
  const double rate = ceiling();
  const double ms = median_ms(call, name);
  std::printf("%-44s floor %7.3f ms  measured %7.3f ms  %5.0f GB/s  %3.0f %%\n",
              name, 1e3 * bytes / rate, ms, bytes / ms / 1e6,
              100 * bytes / ms * 1e3 / rate);
  std::fflush(stdout);
}

DeviceBuffer bf16(std::int64_t count, unsigned seed = 1) {
  DeviceBuffer buffer(static_cast<std::size_t>(count * 2));
  fill_normal_bf16(buffer.as<void>(), count, seed);
  return buffer;
}
DeviceBuffer fp32(std::int64_t count, float low = -1, float high = 1) {
  DeviceBuffer buffer(static_cast<std::size_t>(count * 4));
  fill_uniform(buffer.as<float>(), count, low, high, 5);
  return buffer;
}
DeviceBuffer documents() {
  std::vector<std::int64_t> cu_seqlens;
  for (std::int64_t n = 0; n <= kDocuments; ++n) {
    cu_seqlens.push_back(n * (T / kDocuments));
  }
  DeviceBuffer buffer(cu_seqlens.size() * 8);
  buffer.upload(cu_seqlens);
  return buffer;
}

TEST(SpeedGpu, short_conv) {
  const DeviceBuffer cu = documents();
  for (const std::int64_t channels : {kHidden, 3 * kHidden}) {
    const std::int64_t count = T * channels;
    const DeviceBuffer x = bf16(count), grad_y = bf16(count, 2),
                       weight = fp32(channels * 4);
    DeviceBuffer y(count * 2), grad_x(count * 2), grad_weight(channels * 16);
    ShortConvFwdParams f;
    f.shape.tokens = T;
    f.shape.documents = kDocuments;
    f.shape.channels = channels;
    f.cu_seqlens = cu.as<std::int64_t>();
    f.x = x.as<void>();
    f.weight = weight.as<float>();
    f.y = y.as<void>();
    const std::string name = "short_conv C " + std::to_string(channels);
    report((name + " fwd").c_str(), 4.0 * static_cast<double>(count),
           [&] { short_conv_fwd(f, nullptr); });
    ShortConvBwdParams b;
    b.shape = f.shape;
    b.cu_seqlens = f.cu_seqlens;
    b.x = f.x;
    b.weight = f.weight;
    b.grad_y = grad_y.as<void>();
    b.grad_x = grad_x.as<void>();
    b.grad_weight = grad_weight.as<float>();
    DeviceBuffer workspace(
        static_cast<std::size_t>(short_conv_bwd_workspace_bytes(b)));
    b.workspace = workspace.as<void>();
    report((name + " bwd").c_str(), 6.0 * static_cast<double>(count),
           [&] { short_conv_bwd(b, nullptr); });
  }
}

TEST(SpeedGpu, norms) {
  const std::int64_t count = T * kHidden;
  const DeviceBuffer x = bf16(count), other = bf16(count, 2),
                     gate = bf16(count, 3), weight = fp32(kHidden, 0.5f, 1.5f);
  DeviceBuffer sum(count * 2), y(count * 2), grad_weight(kHidden * 4);
  const double n = static_cast<double>(count);
  RmsNormFwdParams f;
  f.rows = T;
  f.width = kHidden;
  f.x = x.as<void>();
  f.residual = other.as<void>();
  f.weight = weight.as<float>();
  f.sum = sum.as<void>();
  f.y = y.as<void>();
  report("rms_norm 1024 + residual fwd", 8 * n,
         [&] { rms_norm_fwd(f, nullptr); });
  RmsNormBwdParams b;
  b.rows = T;
  b.width = kHidden;
  b.x = x.as<void>();
  b.weight = f.weight;
  b.grad_y = other.as<void>();
  b.grad_sum = gate.as<void>();
  b.grad_x = y.as<void>();
  b.grad_weight = grad_weight.as<float>();
  DeviceBuffer workspace(
      static_cast<std::size_t>(rms_norm_bwd_workspace_bytes(b)));
  b.workspace = workspace.as<void>();
  report("rms_norm 1024 + residual bwd", 8 * n,
         [&] { rms_norm_bwd(b, nullptr); });

  GatedNormFwdParams g;
  g.shape.tokens = T;
  g.shape.heads = kHeads;
  g.shape.width = kHeadWidth;
  g.o = x.as<void>();
  g.gate = gate.as<void>();
  g.weight = weight.as<float>();
  g.y = y.as<void>();
  report("gated_norm 8 x 128 silu fwd", 6 * n,
         [&] { gated_norm_fwd(g, nullptr); });
  GatedNormBwdParams h;
  h.shape = g.shape;
  h.o = g.o;
  h.gate = g.gate;
  h.weight = g.weight;
  h.grad_y = other.as<void>();
  h.grad_o = y.as<void>();
  h.grad_gate = sum.as<void>();
  h.grad_weight = grad_weight.as<float>();
  DeviceBuffer gated_workspace(
      static_cast<std::size_t>(gated_norm_bwd_workspace_bytes(h)));
  h.workspace = gated_workspace.as<void>();
  report("gated_norm 8 x 128 silu bwd", 10 * n,
         [&] { gated_norm_bwd(h, nullptr); });
  g.shape.activation = h.shape.activation = GateActivation::kNone;
  g.gate = h.gate = nullptr;
  h.grad_gate = nullptr;
  report("head norm 8 x 128 fwd", 4 * n, [&] { gated_norm_fwd(g, nullptr); });
  report("head norm 8 x 128 bwd", 6 * n, [&] { gated_norm_bwd(h, nullptr); });
}

TEST(SpeedGpu, swiglu) {
  const std::int64_t count = T * kMlp;
  const DeviceBuffer both = bf16(2 * count), grad_y = bf16(count, 2);
  DeviceBuffer y(count * 2), grads(2 * count * 2);
  const double n = static_cast<double>(count);
  SwigluFwdParams f;
  f.rows = T;
  f.width = kMlp;
  f.gate = both.as<void>();
  f.up = both.as<std::uint16_t>() + kMlp;
  f.gate_stride = f.up_stride = 2 * kMlp;
  f.y = y.as<void>();
  report("swiglu 2816 fwd", 6 * n, [&] { swiglu_fwd(f, nullptr); });
  SwigluBwdParams b;
  b.rows = T;
  b.width = kMlp;
  b.gate = f.gate;
  b.up = f.up;
  b.gate_stride = b.up_stride = 2 * kMlp;
  b.grad_y = grad_y.as<void>();
  b.grad_gate = grads.as<void>();
  b.grad_up = grads.as<std::uint16_t>() + kMlp;
  b.grad_gate_stride = b.grad_up_stride = 2 * kMlp;
  report("swiglu 2816 bwd", 10 * n, [&] { swiglu_bwd(b, nullptr); });
  b.y = y.as<void>();
  report("swiglu 2816 bwd with y again", 12 * n,
         [&] { swiglu_bwd(b, nullptr); });
}

TEST(SpeedGpu, gates) {
  const DeviceBuffer a_log = fp32(kHeads), bias = fp32(kHidden);
  for (const bool channels : {false, true}) {
    const std::int64_t columns = channels ? kHidden : kHeads;
    const DeviceBuffer x = bf16(T * columns), grad_y = fp32(T * columns);
    DeviceBuffer y(T * columns * 4), grad_x(T * columns * 2),
        grad_a_log(kHeads * 4), grad_bias(kHidden * 4);
    const double n = static_cast<double>(T * columns);
    GateFwdParams f;
    f.shape.kind = GateKind::kSoftplusDecay;
    f.shape.tokens = T;
    f.shape.heads = kHeads;
    f.shape.head_width = columns / kHeads;
    f.x = x.as<void>();
    f.a_log = a_log.as<float>();
    f.bias = bias.as<float>();
    f.y = y.as<float>();
    report(channels ? "decay per channel fwd" : "decay per head fwd", 6 * n,
           [&] { gate_fwd(f, nullptr); });
    GateBwdParams b;
    b.shape = f.shape;
    b.x = f.x;
    b.a_log = f.a_log;
    b.bias = f.bias;
    b.grad_y = grad_y.as<float>();
    b.grad_x = grad_x.as<void>();
    b.grad_a_log = grad_a_log.as<float>();
    b.grad_bias = grad_bias.as<float>();
    DeviceBuffer workspace(
        static_cast<std::size_t>(gate_bwd_workspace_bytes(b)));
    b.workspace = workspace.as<void>();
    report(channels ? "decay per channel bwd" : "decay per head bwd", 8 * n,
           [&] { gate_bwd(b, nullptr); });
  }
  const DeviceBuffer x = bf16(T * kHeads);
  DeviceBuffer y(T * kHeads * 4);
  GateFwdParams f;
  f.shape.tokens = T;
  f.shape.heads = kHeads;
  f.x = x.as<void>();
  f.y = y.as<float>();
  report("beta (sigmoid per head) fwd", 6.0 * T * kHeads,
         [&] { gate_fwd(f, nullptr); });
}

TEST(SpeedGpu, cross_entropy) {
  constexpr std::int64_t kRows = 8192;
  const DeviceBuffer logits = bf16(kRows * kVocab);
  DeviceBuffer labels(kRows * 8), loss(kRows * 4), sum(8);
  labels.upload(std::vector<std::int64_t>(kRows, 17));
  sum.upload(std::vector<double>{0});
  CrossEntropyParams p;
  p.rows = kRows;
  p.vocab = kVocab;
  p.logits = logits.as<void>();
  p.labels = labels.as<std::int64_t>();
  p.loss = loss.as<float>();
  p.loss_sum = sum.as<double>();
  const double n = static_cast<double>(kRows * kVocab);
  report("cross_entropy 8192 x 32000", 4 * n,
         [&] { cross_entropy(p, nullptr); });
  p.write_gradient = false;
  report("cross_entropy 8192 x 32000, loss alone", 2 * n,
         [&] { cross_entropy(p, nullptr); });
}

TEST(SpeedGpu, adamw) {
  // DeltaNet 340M's 374,362,112 parameters in tensors of its sizes.
  std::vector<std::int64_t> sizes = {kVocab * kHidden, kVocab * kHidden,
                                     kHidden};
  for (int layer = 0; layer < 24; ++layer) {
    for (int i = 0; i < 4; ++i) sizes.push_back(kHidden * kHidden);
    for (int i = 0; i < 3; ++i) sizes.push_back(kHidden * kMlp);
    for (int i = 0; i < 3; ++i) sizes.push_back(kHidden * 4);
    for (int i = 0; i < 2; ++i) sizes.push_back(kHidden);
    sizes.push_back(kHidden * kHeads);
    sizes.push_back(kHeadWidth);
  }
  std::int64_t total = 0;
  for (const std::int64_t size : sizes) total += size;
  ASSERT_EQ(total, 374362112);
  const DeviceBuffer master = fp32(total), m = fp32(total),
                     v = fp32(total, 0, 1), grad = fp32(total);
  const DeviceBuffer grad16 = bf16(total);
  DeviceBuffer copy(static_cast<std::size_t>(total * 2));
  for (const bool narrow : {false, true}) {
    std::vector<AdamWTensor> tensors;
    std::int64_t at = 0;
    for (const std::int64_t size : sizes) {
      AdamWTensor t;
      t.master = master.as<float>() + at;
      t.m = m.as<float>() + at;
      t.v = v.as<float>() + at;
      t.grad = narrow ? static_cast<void*>(grad16.as<std::uint16_t>() + at)
                      : static_cast<void*>(grad.as<float>() + at);
      t.copy = copy.as<std::uint16_t>() + at;
      t.n = size;
      t.weight_decay = 0.1f;
      t.grad_element = narrow ? Element::kBF16 : Element::kF32;
      tensors.push_back(t);
      at += size;
    }
    AdamWTable table;
    const std::vector<std::byte> bytes = adamw_pack_table(tensors, table);
    DeviceBuffer table_at(bytes.size()), norm_and_clip(8),
        step(sizeof(AdamWStep));
    table_at.upload(bytes);
    table.device = table_at.as<void>();
    step.upload(std::vector<AdamWStep>{{1e-3f, 0.1f, 0.05f}});
    GlobalNormParams norm;
    norm.table = table;
    norm.max_norm = 1.0f;
    DeviceBuffer workspace(
        static_cast<std::size_t>(global_norm_workspace_bytes(norm)));
    norm.workspace = workspace.as<double>();
    norm.norm_and_clip = norm_and_clip.as<float>();
    const double n = static_cast<double>(total);
    const double grad_bytes = narrow ? 2 : 4;
    report(narrow ? "global norm 374M, bf16" : "global norm 374M, fp32",
           grad_bytes * n, [&] { global_norm(norm, nullptr); });
    AdamWParams p;
    p.table = table;
    p.step = step.as<AdamWStep>();
    p.clip = norm_and_clip.as<float>() + 1;
    report(narrow ? "adamw 374M, bf16 gradients" : "adamw 374M, fp32 gradients",
           (26 + grad_bytes) * n, [&] { adamw(p, nullptr); });
  }
}

TEST(SpeedGpu, preconditioner) {
  const DeviceBuffer cu = documents();
  const std::int64_t count = T * kHidden;
  const DeviceBuffer k = bf16(count), grad = bf16(count, 2),
                     beta = fp32(T * kHeads, 0, 1),
                     r = fp32(T * kHeads, 0.998f, 1), d0 = fp32(kHidden, 1, 1);
  const std::int64_t rows = preconditioner_checkpoint_rows(T, kDocuments);
  DeviceBuffer k_write(count * 2), s(T * kHeads * 4),
      checkpoint(static_cast<std::size_t>(rows * kHidden * 4)),
      grad_k(count * 2), grad_beta(T * kHeads * 4), grad_r(T * kHeads * 4),
      grad_d0(kHidden * 4);
  PreconditionerFwdParams f;
  f.shape.tokens = T;
  f.shape.documents = kDocuments;
  f.shape.key_heads = f.shape.value_heads = kHeads;
  f.shape.key_width = kHeadWidth;
  f.cu_seqlens = cu.as<std::int64_t>();
  f.k = k.as<void>();
  f.beta = beta.as<float>();
  f.d0 = d0.as<float>();
  f.k_write = k_write.as<void>();
  f.s = s.as<float>();
  f.d_checkpoint = checkpoint.as<float>();
  PreconditionerBwdParams b;
  b.shape = f.shape;
  b.cu_seqlens = f.cu_seqlens;
  b.k = f.k;
  b.beta = f.beta;
  b.s = f.s;
  b.d_checkpoint = f.d_checkpoint;
  b.grad_k_write = grad.as<void>();
  b.grad_k = grad_k.as<void>();
  b.grad_beta = grad_beta.as<float>();
  b.grad_d0 = grad_d0.as<float>();
  DeviceBuffer workspace(
      static_cast<std::size_t>(preconditioner_bwd_workspace_bytes(b)));
  b.workspace = workspace.as<void>();
  const double fwd_bytes = static_cast<double>(T * kHeads) * (512 + 8 + 32);
  const double bwd_bytes = static_cast<double>(T * kHeads) * (768 + 12 + 32);
  for (const bool apf : {false, true}) {
    f.r = b.r = apf ? r.as<float>() : nullptr;
    b.grad_r = apf ? grad_r.as<float>() : nullptr;
    report(apf ? "preconditioner + APF, 4096 steps fwd"
               : "preconditioner, 4096 steps fwd",
           fwd_bytes, [&] { preconditioner_fwd(f, nullptr); });
    report(apf ? "preconditioner + APF, 4096 steps bwd"
               : "preconditioner, 4096 steps bwd",
           bwd_bytes, [&] { preconditioner_bwd(b, nullptr); });
  }
}

}  // namespace
}  // namespace osdn::test
