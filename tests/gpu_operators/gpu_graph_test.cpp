// Recorded work: repeated on the values that its places hold, and refused where
// it cannot be recorded.

#include "osdn/ops/gpu_graph.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <string>

#include "osdn/core/error.h"
#include "osdn/ops/gpu.h"

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
