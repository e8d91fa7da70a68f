// RMSNorm with residual and the gated norm per head, on the GPU against
// float64.

#include <gtest/gtest.h>

#include "gpu/op_run.h"
#include "kernels/norm/gated_norm.cuh"
#include "kernels/norm/rms_norm.cuh"

namespace osdn::test {
namespace {

using namespace kernels;

constexpr double kEps = 1e-6;

void expect_rms_norm(std::int64_t rows, std::int64_t width, Element element,
                     bool residual) {
  SCOPED_TRACE(std::string(name_of(element)) + " rows " + std::to_string(rows) +
               " width " + std::to_string(width) +
               (residual ? " residual" : ""));
  Random random(9);
  const Values x = random.normal(rows * width, element);
  const Values other = random.normal(rows * width, element);
  const Values weight = random.uniform(width, 0.5, 1.5);
  const Values grad_y = random.normal(rows * width, element);
  Values sum = x, y(x.size()), grad_x(x.size()), grad_weight(weight.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto row = static_cast<std::size_t>(r * width);
    double squares = 0, along = 0;
    for (std::size_t c = 0; c < weight.size(); ++c) {
      double& value = sum[row + c];
      if (residual) value = rounded(value + other[row + c], element);
      squares += value * value;
      along += grad_y[row + c] * weight[c] * value;
    }
    const double n = static_cast<double>(width);
    const double rstd = 1 / std::sqrt(squares / n + kEps);
    for (std::size_t c = 0; c < weight.size(); ++c) {
      const double value = sum[row + c];
      y[row + c] = value * rstd * weight[c];
      grad_weight[c] += grad_y[row + c] * value * rstd;
      grad_x[row + c] = rstd * (grad_y[row + c] * weight[c] -
                                value * rstd * rstd * along / n);
      if (residual) grad_x[row + c] += other[row + c];
    }
  }

  const DeviceBuffer x_at = on_device(x, element);
  const DeviceBuffer other_at = on_device(other, element);
  const DeviceBuffer sum_at = on_device(sum, element);
  const DeviceBuffer weight_at = on_device(weight, Element::kF32);
  const DeviceBuffer grad_y_at = on_device(grad_y, element);
  OpRun fwd, bwd;
  RmsNormFwdParams f;
  f.rows = rows;
  f.width = width;
  f.element = element;
  f.x = x_at.as<void>();
  f.residual = residual ? other_at.as<void>() : nullptr;
  f.weight = weight_at.as<float>();
  f.sum = residual ? fwd.output("sum", rows * width, element) : nullptr;
  f.y = fwd.output("y", rows * width, element);
  fwd.run([&] { rms_norm_fwd(f, nullptr); });
  if (residual) fwd.expect("sum", sum, 0);
  fwd.expect("y", y, element_bound(element));

  RmsNormBwdParams b;
  b.rows = rows;
  b.width = width;
  b.element = element;
  b.x = sum_at.as<void>();
  b.weight = f.weight;
  b.grad_y = grad_y_at.as<void>();
  // The gradient that reaches sum directly: `other` serves as one.
  b.grad_sum = residual ? other_at.as<void>() : nullptr;
  b.grad_x = bwd.output("grad_x", rows * width, element);
  b.grad_weight = bwd.output<float>("grad_weight", width, Element::kF32);
  b.workspace = bwd.workspace(rms_norm_bwd_workspace_bytes(b));
  bwd.run([&] { rms_norm_bwd(b, nullptr); });
  bwd.expect("grad_x", grad_x, element_bound(element));
  bwd.expect("grad_weight", grad_weight, 5e-6);
}

TEST(RmsNormGpu, K5_widths) {
  for (const Element element : {Element::kBF16, Element::kF32}) {
    for (const std::int64_t width :
         {1, 7, 64, 100, 256, 1000, 1024, 1032, 2048, 4096, 5000, 16384}) {
      expect_rms_norm(5, width, element, width % 3 != 0);
    }
  }
}

TEST(RmsNormGpu, rows_of_any_number) {
  for (const Element element : {Element::kBF16, Element::kF32}) {
    for (const bool residual : {false, true}) {
      for (const std::int64_t rows : {0, 1, 8, 9, 2200}) {
        expect_rms_norm(rows, 96, element, residual);
      }
    }
  }
}

struct GatedCase {
  std::int64_t tokens = 30, heads = 3, width = 128, padding = 0;
  Element element = Element::kBF16;
  GateActivation activation = GateActivation::kSilu;
};

void expect_gated_norm(const GatedCase& c) {
  SCOPED_TRACE(std::string(name_of(c.element)) + " T " +
               std::to_string(c.tokens) + " HV " + std::to_string(c.heads) +
               " V " + std::to_string(c.width) + " activation " +
               std::to_string(static_cast<int>(c.activation)));
  const bool gated = c.activation != GateActivation::kNone;
  const std::int64_t row = c.heads * c.width, count = c.tokens * row;
  Random random(4);
  const Values o = random.normal(count, c.element);
  const Values gate = random.normal(count, c.element, 2);
  const Values weight = random.uniform(c.width, 0.5, 1.5);
  const Values grad_y = random.normal(count, c.element);
  Values y(o.size()), grad_o(o.size()), grad_gate(o.size()),
      grad_weight(weight.size());
  for (std::size_t first = 0; first < o.size(); first += weight.size()) {
    double squares = 0;
    for (std::size_t j = 0; j < weight.size(); ++j) {
      squares += o[first + j] * o[first + j];
    }
    const double n = static_cast<double>(c.width);
    const double rstd = 1 / std::sqrt(squares / n + kEps);
    double along = 0;
    Values grad_n(weight.size());
    for (std::size_t j = 0; j < weight.size(); ++j) {
      const double g = gate[first + j], s = sigmoid_of(g);
      double act = 1, slope = 0;
      if (c.activation == GateActivation::kSilu) {
        act = g * s;
        slope = s + g * s * (1 - s);
      } else if (gated) {
        act = s;
        slope = s * (1 - s);
      }
      const double normed = o[first + j] * rstd;
      y[first + j] = normed * weight[j] * act;
      grad_gate[first + j] = grad_y[first + j] * normed * weight[j] * slope;
      grad_weight[j] += grad_y[first + j] * normed * act;
      grad_n[j] = grad_y[first + j] * weight[j] * act;
      along += grad_n[j] * normed;
    }
    for (std::size_t j = 0; j < weight.size(); ++j) {
      grad_o[first + j] = rstd * (grad_n[j] - o[first + j] * rstd * along / n);
    }
  }

  const std::int64_t stride = row + c.padding;
  const DeviceBuffer o_at = on_device(o, c.element);
  const DeviceBuffer gate_at = on_device(strided(gate, row, stride), c.element);
  const DeviceBuffer weight_at = on_device(weight, Element::kF32);
  const DeviceBuffer grad_y_at = on_device(grad_y, c.element);
  OpRun fwd, bwd;
  GatedNormFwdParams f;
  f.shape.tokens = c.tokens;
  f.shape.heads = c.heads;
  f.shape.width = c.width;
  f.shape.element = c.element;
  f.shape.activation = c.activation;
  f.o = o_at.as<void>();
  f.gate = gated ? gate_at.as<void>() : nullptr;
  f.gate_stride = stride;
  f.weight = weight_at.as<float>();
  f.y = fwd.output("y", count, c.element);
  fwd.run([&] { gated_norm_fwd(f, nullptr); });
  fwd.expect("y", y, element_bound(c.element));

  GatedNormBwdParams b;
  b.shape = f.shape;
  b.o = f.o;
  b.gate = f.gate;
  b.gate_stride = stride;
  b.weight = f.weight;
  b.grad_y = grad_y_at.as<void>();
  b.grad_o = bwd.output("grad_o", count, c.element);
  if (gated) b.grad_gate = bwd.output("grad_gate", count, c.element);
  b.grad_weight = bwd.output<float>("grad_weight", c.width, Element::kF32);
  b.workspace = bwd.workspace(gated_norm_bwd_workspace_bytes(b));
  bwd.run([&] { gated_norm_bwd(b, nullptr); });
  // A row of one channel has almost no gradient: what is left is rounding.
  bwd.expect("grad_o", grad_o, c.width == 1 ? 1e-2 : element_bound(c.element));
  if (gated) bwd.expect("grad_gate", grad_gate, element_bound(c.element));
  bwd.expect("grad_weight", grad_weight, 5e-6);
}

TEST(GatedNormGpu, K5_widths_and_activations) {
  GatedCase c;
  for (const Element element : {Element::kBF16, Element::kF32}) {
    c.element = element;
    for (const std::int64_t width :
         {1, 7, 48, 64, 100, 104, 128, 200, 256, 300, 504, 512}) {
      c.width = width;
      for (const GateActivation activation :
           {GateActivation::kNone, GateActivation::kSilu,
            GateActivation::kSigmoid}) {
        c.activation = activation;
        expect_gated_norm(c);
      }
    }
  }
}

TEST(GatedNormGpu, K10_gate_as_a_slice_and_any_number_of_rows) {
  GatedCase c;
  for (const Element element : {Element::kBF16, Element::kF32}) {
    c.element = element;
    for (const std::int64_t tokens : {0, 1, 65, 2000}) {
      c.tokens = tokens;
      for (const std::int64_t padding : {8, 3}) {
        c.width = tokens == 2000 ? 16 : 128;
        c.padding = padding;
        expect_gated_norm(c);
      }
    }
  }
}

TEST(NormGpu, refuses_what_it_cannot_do) {
  RmsNormFwdParams f;
  f.rows = 1;
  f.width = 16385;
  EXPECT_STREQ(rms_norm_fwd_unsupported(f),
               "rows must not be negative, width must be 1 to 16384");
  GatedNormFwdParams g;
  g.shape.heads = 1;
  g.shape.width = 513;
  EXPECT_STREQ(gated_norm_fwd_unsupported(g), "width must be 1 to 512");
}

}  // namespace
}  // namespace osdn::test
