// The gates on the GPU against float64.

#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/op_run.h"
#include "kernels/gates/gates.cuh"

namespace osdn::test {
namespace {

using namespace kernels;

struct Case {
  GateKind kind = GateKind::kSoftplusDecay;
  std::int64_t tokens = 300, heads = 8, head_width = 1, padding = 0;
  Element element = Element::kBF16;
  bool bias = true;
  double scale = 2, lower_bound = -5, logit_scale = 3;
};

void expect_right(const Case& c) {
  SCOPED_TRACE(std::string(name_of(c.element)) + " kind " +
               std::to_string(static_cast<int>(c.kind)) + " T " +
               std::to_string(c.tokens) + " H " + std::to_string(c.heads) +
               " W " + std::to_string(c.head_width));
  const bool decay = c.kind != GateKind::kSigmoid;
  const std::int64_t columns = c.heads * c.head_width;
  Random random(8);
  const Values x = random.normal(c.tokens * columns, c.element, c.logit_scale);
  const Values a_log = random.uniform(c.heads, -1, 2.7);
  const Values bias = random.uniform(columns, -2, 2);
  const Values grad_y = random.normal(c.tokens * columns, Element::kF32);
  Values y(x.size()), grad_x(x.size()), grad_a_log(a_log.size()),
      grad_bias(bias.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t column = i % bias.size();
    const std::size_t head = column / static_cast<std::size_t>(c.head_width);
    const double z = x[i] + (c.bias ? bias[column] : 0);
    const double decay_rate = std::exp(a_log[head]);
    double slope = 0, slope_a = 0;
    if (c.kind == GateKind::kSoftplusDecay) {
      y[i] = -decay_rate * (z > 20 ? z : std::log1p(std::exp(z)));
      slope = -decay_rate * sigmoid_of(z);
      slope_a = y[i];
    } else if (c.kind == GateKind::kBoundedDecay) {
      const double s = sigmoid_of(decay_rate * z);
      y[i] = c.lower_bound * s;
      slope = c.lower_bound * s * (1 - s) * decay_rate;
      slope_a = slope * z;
    } else {
      const double s = sigmoid_of(z);
      y[i] = c.scale * s;
      slope = c.scale * s * (1 - s);
    }
    grad_x[i] = grad_y[i] * slope;
    grad_bias[column] += grad_x[i];
    grad_a_log[head] += grad_y[i] * slope_a;
  }

  const std::int64_t stride = columns + c.padding;
  const DeviceBuffer x_at = on_device(strided(x, columns, stride), c.element);
  const DeviceBuffer a_log_at = on_device(a_log, Element::kF32);
  const DeviceBuffer bias_at = on_device(bias, Element::kF32);
  const DeviceBuffer grad_y_at = on_device(grad_y, Element::kF32);
  OpRun fwd, bwd;
  GateFwdParams f;
  f.shape.kind = c.kind;
  f.shape.tokens = c.tokens;
  f.shape.heads = c.heads;
  f.shape.head_width = c.head_width;
  f.shape.element = c.element;
  f.shape.lower_bound = decay ? static_cast<float>(c.lower_bound) : 0.0f;
  f.shape.scale = static_cast<float>(c.scale);
  f.x = x_at.as<void>();
  f.x_stride = stride;
  f.a_log = decay ? a_log_at.as<float>() : nullptr;
  f.bias = c.bias ? bias_at.as<float>() : nullptr;
  f.y = fwd.output<float>("y", c.tokens * columns, Element::kF32);
  fwd.run([&] { gate_fwd(f, nullptr); });
  fwd.expect("y", y, 2e-6);

  GateBwdParams b;
  b.shape = f.shape;
  b.x = f.x;
  b.x_stride = stride;
  b.a_log = f.a_log;
  b.bias = f.bias;
  b.grad_y = grad_y_at.as<float>();
  b.grad_x = bwd.output("grad_x", c.tokens * columns, c.element);
  if (decay) {
    b.grad_a_log = bwd.output<float>("grad_a_log", c.heads, Element::kF32);
  }
  if (c.bias) {
    b.grad_bias = bwd.output<float>("grad_bias", columns, Element::kF32);
  }
  b.workspace = bwd.workspace(gate_bwd_workspace_bytes(b));
  bwd.run([&] { gate_bwd(b, nullptr); });
  bwd.expect("grad_x", grad_x, element_bound(c.element));
  if (decay) bwd.expect("grad_a_log", grad_a_log, 1e-4);
  if (c.bias) bwd.expect("grad_bias", grad_bias, 1e-4);
}

TEST(GatesGpu, kinds_heads_and_channels) {
  for (const Element element : {Element::kBF16, Element::kF32}) {
    for (const GateKind kind : {GateKind::kSoftplusDecay,
                                GateKind::kBoundedDecay, GateKind::kSigmoid}) {
      Case c;
      c.element = element;
      c.kind = kind;
      for (const std::int64_t heads : {1, 3, 6, 8}) {
        for (const std::int64_t head_width : {1, 5, 128, 256}) {
          c.heads = heads;
          c.head_width = head_width;
          c.tokens = head_width > 64 ? 20 : 300;
          expect_right(c);
        }
      }
      c.head_width = 1;
      for (const std::int64_t tokens : {0, 1, 20000}) {
        c.tokens = tokens;
        expect_right(c);
      }
      c.tokens = 50;
      for (const std::int64_t padding : {16, 3}) {
        c.padding = padding;
        expect_right(c);
      }
      if (kind == GateKind::kSigmoid) {
        c.bias = false;
        expect_right(c);
      }
    }
  }
}

TEST(GatesGpu, K1_extremes_stay_finite) {
  const Values x = {-1e30, -300, -30, 0, 19.9, 20.1, 300, 1e30};
  const std::int64_t n = 8;
  for (const GateKind kind :
       {GateKind::kSoftplusDecay, GateKind::kBoundedDecay}) {
    for (const double a : {-100.0, 0.0, 2.0, 200.0}) {
      // exp(80) times 1e30 is no fp32 number, so the largest logits go with
      // ordinary rates.
      Values logits = x;
      if (a > 2) {
        for (double& value : logits) value = std::clamp(value, -3.0, 3.0);
      }
      const DeviceBuffer x_at = on_device(logits, Element::kF32);
      const DeviceBuffer a_at = on_device(Values{a}, Element::kF32);
      const DeviceBuffer bias_at = on_device(Values{0.5}, Element::kF32);
      const DeviceBuffer ones = on_device(Values(8, 1.0), Element::kF32);
      GateFwdParams f;
      f.shape.kind = kind;
      f.shape.tokens = n;
      f.shape.heads = 1;
      f.shape.element = Element::kF32;
      f.shape.lower_bound = -5;
      f.x = x_at.as<void>();
      f.a_log = a_at.as<float>();
      f.bias = bias_at.as<float>();
      OpRun fwd, bwd;
      f.y = fwd.output<float>("y", n, Element::kF32);
      fwd.run([&] { gate_fwd(f, nullptr); });
      GateBwdParams b;
      b.shape = f.shape;
      b.x = f.x;
      b.a_log = f.a_log;
      b.bias = f.bias;
      b.grad_y = ones.as<float>();
      b.grad_x = bwd.output("grad_x", n, Element::kF32);
      b.grad_a_log = bwd.output<float>("grad_a_log", 1, Element::kF32);
      b.grad_bias = bwd.output<float>("grad_bias", 1, Element::kF32);
      b.workspace = bwd.workspace(gate_bwd_workspace_bytes(b));
      bwd.run([&] { gate_bwd(b, nullptr); });
      for (const double y : fwd.values("y")) {
        EXPECT_TRUE(std::isfinite(y) && y <= 0) << "A " << a << ": " << y;
      }
      for (const double grad : bwd.values("grad_x")) {
        EXPECT_TRUE(std::isfinite(grad)) << "A " << a;
      }
      EXPECT_TRUE(std::isfinite(bwd.values("grad_a_log")[0])) << "A " << a;
    }
  }
}

}  // namespace
}  // namespace osdn::test
