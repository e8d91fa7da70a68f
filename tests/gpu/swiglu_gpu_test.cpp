// SwiGLU on the GPU against float64.

#include <gtest/gtest.h>

#include "gpu/op_run.h"
#include "kernels/swiglu/swiglu.cuh"

namespace osdn::test {
namespace {

using namespace kernels;

/// gate and up lie side by side in rows of `stride`.
void expect_right(std::int64_t rows, std::int64_t width, std::int64_t stride,
                  Element element) {
  SCOPED_TRACE(std::string(name_of(element)) + " rows " + std::to_string(rows) +
               " width " + std::to_string(width) + " stride " +
               std::to_string(stride));
  Random random(6);
  const Values gate = random.normal(rows * width, element, 2);
  const Values up = random.normal(rows * width, element);
  const Values grad = random.normal(rows * width, element);
  Values y(gate.size()), grad_gate(gate.size()), grad_up(gate.size());
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double s = sigmoid_of(gate[i]);
    y[i] = gate[i] * s * up[i];
    grad_up[i] = grad[i] * gate[i] * s;
    grad_gate[i] = grad[i] * up[i] * s * (1 + gate[i] * (1 - s));
  }
  const DeviceBuffer gate_at = on_device(strided(gate, width, stride), element);
  const DeviceBuffer up_at = on_device(strided(up, width, stride), element);
  const DeviceBuffer grad_at = on_device(grad, element);
  OpRun fwd, bwd;
  SwigluFwdParams f;
  f.rows = rows;
  f.width = width;
  f.element = element;
  f.gate = gate_at.as<void>();
  f.up = up_at.as<void>();
  f.gate_stride = f.up_stride = stride;
  f.y = fwd.output("y", rows * width, element);
  fwd.run([&] { swiglu_fwd(f, nullptr); });
  fwd.expect("y", y, element_bound(element));

  SwigluBwdParams b;
  b.rows = rows;
  b.width = width;
  b.element = element;
  b.gate = f.gate;
  b.up = f.up;
  b.gate_stride = b.up_stride = stride;
  b.grad_y = grad_at.as<void>();
  b.grad_gate = bwd.output("grad_gate", rows * width, element);
  b.grad_up = bwd.output("grad_up", rows * width, element);
  b.y = bwd.output("y", rows * width, element);
  bwd.run([&] { swiglu_bwd(b, nullptr); });
  bwd.expect("grad_gate", grad_gate, element_bound(element));
  bwd.expect("grad_up", grad_up, element_bound(element));
  EXPECT_EQ(bwd.bits("y"), fwd.bits("y")) << "recomputed is not stored";
}

TEST(SwigluGpu, widths_and_strides) {
  for (const Element element : {Element::kBF16, Element::kF32}) {
    for (const std::int64_t width : {1, 7, 64, 100, 704}) {
      for (const std::int64_t padding : {0, 8, 3}) {
        expect_right(9, width, width + padding, element);
      }
    }
    expect_right(0, 64, 64, element);
  }
}

TEST(SwigluGpu, K1_large_gates_stay_finite) {
  const Values gate = {-1e30, -200, -90, 0, 90, 200, 1e30, 1};
  const Values ones(gate.size(), 1.0);
  const DeviceBuffer gate_at = on_device(gate, Element::kF32);
  const DeviceBuffer ones_at = on_device(ones, Element::kF32);
  OpRun run;
  SwigluBwdParams b;
  b.rows = 1;
  b.width = 8;
  b.element = Element::kF32;
  b.gate = gate_at.as<void>();
  b.up = b.grad_y = ones_at.as<void>();
  b.grad_gate = run.output("grad_gate", 8, Element::kF32);
  b.grad_up = run.output("grad_up", 8, Element::kF32);
  b.y = run.output("y", 8, Element::kF32);
  run.run([&] { swiglu_bwd(b, nullptr); });
  const double one = sigmoid_of(1);
  run.expect("y", {0, 0, 0, 0, 90, 200, 1e30, one}, 1e-6);
  run.expect("grad_gate", {0, 0, 0, 0.5, 1, 1, 1, one * (2 - one)}, 1e-6);
}

}  // namespace
}  // namespace osdn::test
