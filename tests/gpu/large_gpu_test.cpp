// Tensors of more than 2^31 elements and 70,000 documents: the end of the
// large run must equal, bit for bit, a small run on that end alone.

#include <gtest/gtest.h>

#include "gpu/device_memory.h"
#include "gpu/timing.h"
#include "kernels/cross_entropy/cross_entropy.cuh"
#include "kernels/norm/rms_norm.cuh"
#include "kernels/preconditioner/preconditioner.cuh"
#include "kernels/short_conv/short_conv.cuh"
#include "kernels/swiglu/swiglu.cuh"

namespace osdn::test {
namespace {

using namespace kernels;

using Bits = std::vector<std::uint16_t>;

constexpr std::int64_t kWidth = 1024;
constexpr std::int64_t kRows = (std::int64_t{1} << 21) + 70000;
constexpr std::int64_t kEnd = 31;  ///< rows compared

DeviceBuffer random_rows(std::int64_t rows, std::int64_t width, unsigned seed) {
  DeviceBuffer buffer(static_cast<std::size_t>(rows * width * 2));
  fill_normal_bf16(buffer.as<void>(), rows * width, seed);
  return buffer;
}

std::uint16_t* row_at(const DeviceBuffer& buffer, std::int64_t row,
                      std::int64_t width) {
  return buffer.as<std::uint16_t>() + row * width;
}

Bits rows_from(const DeviceBuffer& buffer, std::int64_t first,
               std::int64_t rows, std::int64_t width) {
  Bits bits(static_cast<std::size_t>(rows * width));
  device_copy(bits.data(), row_at(buffer, first, width), bits.size() * 2);
  return bits;
}

/// 70,000 documents; the last one is kEnd rows long.
std::vector<std::int64_t> many_documents() {
  std::vector<std::int64_t> cu_seqlens{0};
  const std::int64_t before = kRows - kEnd, count = 69999;
  for (std::int64_t n = 1; n <= count; ++n) {
    cu_seqlens.push_back(before * n / count);
  }
  cu_seqlens.push_back(kRows);
  return cu_seqlens;
}

DeviceBuffer upload(const std::vector<std::int64_t>& values) {
  DeviceBuffer buffer(values.size() * 8);
  buffer.upload(values);
  return buffer;
}

TEST(LargeGpu, K9_rms_norm) {
  const DeviceBuffer x = random_rows(kRows, kWidth, 1);
  DeviceBuffer weight(kWidth * 4), y(kRows * kWidth * 2),
      small(kEnd * kWidth * 2);
  fill_uniform(weight.as<float>(), kWidth, 0.5f, 1.5f, 2);
  RmsNormFwdParams p;
  p.rows = kRows;
  p.width = kWidth;
  p.x = x.as<void>();
  p.weight = weight.as<float>();
  p.y = y.as<void>();
  rms_norm_fwd(p, nullptr);
  p.rows = kEnd;
  p.x = row_at(x, kRows - kEnd, kWidth);
  p.y = small.as<void>();
  rms_norm_fwd(p, nullptr);
  device_synchronize();
  EXPECT_EQ(rows_from(y, kRows - kEnd, kEnd, kWidth),
            rows_from(small, 0, kEnd, kWidth));
}

TEST(LargeGpu, K9_swiglu) {
  const DeviceBuffer gate = random_rows(kRows, kWidth, 1);
  const DeviceBuffer up = random_rows(kRows, kWidth, 2);
  DeviceBuffer y(kRows * kWidth * 2), small(kEnd * kWidth * 2);
  SwigluFwdParams p;
  p.rows = kRows;
  p.width = kWidth;
  p.gate = gate.as<void>();
  p.up = up.as<void>();
  p.y = y.as<void>();
  swiglu_fwd(p, nullptr);
  p.rows = kEnd;
  p.gate = row_at(gate, kRows - kEnd, kWidth);
  p.up = row_at(up, kRows - kEnd, kWidth);
  p.y = small.as<void>();
  swiglu_fwd(p, nullptr);
  device_synchronize();
  EXPECT_EQ(rows_from(y, kRows - kEnd, kEnd, kWidth),
            rows_from(small, 0, kEnd, kWidth));
}

TEST(LargeGpu, K9_short_conv_70000_documents) {
  const DeviceBuffer x = random_rows(kRows, kWidth, 1);
  const DeviceBuffer grad_y = random_rows(kRows, kWidth, 2);
  DeviceBuffer weight(kWidth * 4 * 4), y(kRows * kWidth * 2),
      grad_x(kRows * kWidth * 2), grad_weight(kWidth * 4 * 4),
      small(kEnd * kWidth * 2), small_grad(kEnd * kWidth * 2);
  fill_uniform(weight.as<float>(), kWidth * 4, -1, 1, 3);
  const std::vector<std::int64_t> documents = many_documents();
  const DeviceBuffer cu = upload(documents), one = upload({0, kEnd});
  ShortConvFwdParams f;
  f.shape.tokens = kRows;
  f.shape.documents = static_cast<std::int64_t>(documents.size()) - 1;
  f.shape.channels = kWidth;
  f.cu_seqlens = cu.as<std::int64_t>();
  f.x = x.as<void>();
  f.weight = weight.as<float>();
  f.y = y.as<void>();
  short_conv_fwd(f, nullptr);
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
  short_conv_bwd(b, nullptr);

  f.shape.tokens = b.shape.tokens = kEnd;
  f.shape.documents = b.shape.documents = 1;
  f.cu_seqlens = b.cu_seqlens = one.as<std::int64_t>();
  f.x = b.x = row_at(x, kRows - kEnd, kWidth);
  f.y = small.as<void>();
  b.grad_y = row_at(grad_y, kRows - kEnd, kWidth);
  b.grad_x = small_grad.as<void>();
  short_conv_fwd(f, nullptr);
  short_conv_bwd(b, nullptr);
  device_synchronize();
  EXPECT_EQ(rows_from(y, kRows - kEnd, kEnd, kWidth),
            rows_from(small, 0, kEnd, kWidth));
  EXPECT_EQ(rows_from(grad_x, kRows - kEnd, kEnd, kWidth),
            rows_from(small_grad, 0, kEnd, kWidth));
}

TEST(LargeGpu, K9_preconditioner_70000_documents) {
  const DeviceBuffer k = random_rows(kRows, kWidth, 1);
  const DeviceBuffer grad = random_rows(kRows, kWidth, 2);
  const std::vector<std::int64_t> documents = many_documents();
  const std::int64_t N = static_cast<std::int64_t>(documents.size()) - 1;
  const std::int64_t heads = 8;
  const DeviceBuffer cu = upload(documents), one = upload({0, kEnd});
  DeviceBuffer beta(kRows * heads * 4), d0(kWidth * 4), s(kRows * heads * 4),
      checkpoint(static_cast<std::size_t>(
          preconditioner_checkpoint_rows(kRows, N) * kWidth * 4)),
      k_write(kRows * kWidth * 2), grad_k(kRows * kWidth * 2),
      grad_beta(kRows * heads * 4), grad_d0(kWidth * 4),
      small(kEnd * kWidth * 2), small_grad(kEnd * kWidth * 2);
  fill_uniform(beta.as<float>(), kRows * heads, 0, 1, 3);
  fill_uniform(d0.as<float>(), kWidth, 0.6f, 1.4f, 4);
  PreconditionerFwdParams f;
  f.shape.tokens = kRows;
  f.shape.documents = N;
  f.shape.key_heads = f.shape.value_heads = heads;
  f.shape.key_width = kWidth / heads;
  f.shape.eta = 0.5f;
  f.cu_seqlens = cu.as<std::int64_t>();
  f.k = k.as<void>();
  f.beta = beta.as<float>();
  f.d0 = d0.as<float>();
  f.k_write = k_write.as<void>();
  f.s = s.as<float>();
  f.d_checkpoint = checkpoint.as<float>();
  preconditioner_fwd(f, nullptr);
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
  preconditioner_bwd(b, nullptr);
  device_synchronize();

  f.shape.tokens = b.shape.tokens = kEnd;
  f.shape.documents = b.shape.documents = 1;
  f.cu_seqlens = b.cu_seqlens = one.as<std::int64_t>();
  f.k = b.k = row_at(k, kRows - kEnd, kWidth);
  f.beta = b.beta = beta.as<float>() + (kRows - kEnd) * heads;
  f.k_write = small.as<void>();
  b.grad_k_write = row_at(grad, kRows - kEnd, kWidth);
  b.grad_k = small_grad.as<void>();
  preconditioner_fwd(f, nullptr);
  preconditioner_bwd(b, nullptr);
  device_synchronize();
  EXPECT_EQ(rows_from(k_write, kRows - kEnd, kEnd, kWidth),
            rows_from(small, 0, kEnd, kWidth));
  EXPECT_EQ(rows_from(grad_k, kRows - kEnd, kEnd, kWidth),
            rows_from(small_grad, 0, kEnd, kWidth));
}

TEST(LargeGpu, K9_cross_entropy) {
  constexpr std::int64_t kVocab = 32000, kTokens = 70000;
  const DeviceBuffer logits = random_rows(kTokens, kVocab, 1);
  const DeviceBuffer labels = upload(std::vector<std::int64_t>(kTokens, 17));
  DeviceBuffer loss(kTokens * 4), small_loss(kEnd * 4),
      small(kEnd * kVocab * 2);
  device_copy(small.as<void>(), row_at(logits, kTokens - kEnd, kVocab),
              small.bytes());
  CrossEntropyParams p;
  p.rows = kTokens;
  p.vocab = kVocab;
  p.logits = logits.as<void>();
  p.labels = labels.as<std::int64_t>();
  p.loss = loss.as<float>();
  cross_entropy(p, nullptr);
  p.rows = kEnd;
  p.logits = small.as<void>();
  p.loss = small_loss.as<float>();
  cross_entropy(p, nullptr);
  device_synchronize();
  EXPECT_EQ(rows_from(logits, kTokens - kEnd, kEnd, kVocab),
            rows_from(small, 0, kEnd, kVocab));
}

}  // namespace
}  // namespace osdn::test
