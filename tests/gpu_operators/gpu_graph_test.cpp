// Recorded work: repeated on the values that its places hold, and refused where
// it cannot be recorded.

#include "osdn/ops/gpu_graph.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "osdn/core/error.h"
#include "osdn/ops/gpu.h"
#include "osdn/ops/side_stream.h"

namespace osdn::ops {
namespace {

const at::Device kGpu(at::kCUDA, 0);

TEST(GpuGraph, repeats_work_on_the_values_of_now) {
  if (!gpu().usable) FAIL() << "no GPU: " << gpu().why_not;
  const at::Tensor x = at::ones({1000}, kGpu);
  at::Tensor y;
  const GpuGraph graph(
      kGpu, [&] { x.mul(2); }, [&] { y = x.mul(2).add(1); });
  const void* place = y.data_ptr();
  for (const double value : {1.0, 5.0, -3.0}) {
    at::Tensor(x).fill_(value);
    // What the graph works in is taken by nobody else.
    const at::Tensor other = at::full({1000}, 99.0, x.options());
    graph.run();
    EXPECT_TRUE(at::equal(y.cpu(), at::full({1000}, 2 * value + 1)));
    EXPECT_EQ(y.data_ptr(), place);
  }
}

// A backward pass has a thread of its own and may use a stream beside.
TEST(GpuGraph, repeats_a_backward_pass_with_a_side_stream) {
  if (!gpu().usable) FAIL() << "no GPU: " << gpu().why_not;
  const at::Tensor x = at::ones({64, 64}, kGpu);
  const at::Tensor w = at::ones({64, 64}, kGpu).requires_grad_(true);
  at::Tensor gradient;
  const auto pass = [&] {
    SideStream side(kGpu, {x, w});
    const at::Tensor beside = x.mul(x).matmul(w);
    side.leave();
    const at::Tensor here = x.matmul(w);
    side.join({beside});
    beside.mul(here).sum().backward();
    gradient = w.grad();
    w.mutable_grad().reset();
  };
  const GpuGraph graph(kGpu, pass, pass);
  const at::Tensor kept = gradient;
  for (const double value : {1.0, 2.0, -3.0}) {
    x.fill_(value);
    graph.run();
    const at::Tensor found = kept.clone();
    pass();
    EXPECT_TRUE(at::equal(found, gradient)) << value;
  }
}

// A second recording works in the memory of the first, but leaves what the
// first one keeps alone.
TEST(GpuGraph, recordings_share_memory_and_keep_their_own) {
  if (!gpu().usable) FAIL() << "no GPU: " << gpu().why_not;
  const at::Tensor x = at::ones({1 << 20}, kGpu);
  const auto work = [&](at::Tensor& out, double factor) {
    return [&x, &out, factor] { out = x.mul(factor).add(1).mul(factor); };
  };
  at::Tensor first_out, second_out, unused;
  auto first =
      std::make_unique<GpuGraph>(kGpu, work(unused, 2), work(first_out, 2));
  const GpuGraph second(kGpu, work(unused, 3), work(second_out, 3),
                        first.get());
  EXPECT_NE(first_out.data_ptr(), second_out.data_ptr());
  first->run();
  second.run();
  EXPECT_EQ(first_out[5].item<double>(), 6);
  EXPECT_EQ(second_out[5].item<double>(), 12);
  first.reset();
  second.run();
  EXPECT_EQ(second_out[7].item<double>(), 12);
}

TEST(GpuGraph, refuses_work_that_waits_for_the_gpu) {
  if (!gpu().usable) FAIL() << "no GPU: " << gpu().why_not;
  const at::Tensor x = at::ones({1000}, kGpu);
  try {
    const GpuGraph graph(
        kGpu, [] {}, [&] { x.sum().item<double>(); });
    ADD_FAILURE() << "recorded";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("could not be recorded"),
              std::string::npos);
  }
  EXPECT_EQ(x.sum().item<double>(), 1000);
}

TEST(GpuGraph, is_not_possible_on_a_cpu) {
  EXPECT_FALSE(GpuGraph::possible(at::kCPU));
}

}  // namespace
}  // namespace osdn::ops
