#include "osdn/bench/timing.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>

namespace osdn::bench {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<double> time_on_gpu(const std::function<void()>& call,
                                at::Device device, int runs) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::Stream stream = guard.getStream(device);
  std::vector<c10::Event> marks;
  for (int i = 0; i <= runs; ++i) {
    marks.emplace_back(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  }
  marks[0].record(stream);
  for (int i = 0; i < runs; ++i) {
    call();
    marks[static_cast<std::size_t>(i) + 1].record(stream);
  }
  marks.back().synchronize();
  std::vector<double> seconds;
  for (std::size_t i = 0; i + 1 < marks.size(); ++i) {
    seconds.push_back(marks[i].elapsedTime(marks[i + 1]) * 1e-3);
  }
  return seconds;
}

}  // namespace

std::vector<double> time_calls(const std::function<void()>& call,
                               at::Device device, int warmup, int runs) {
  for (int i = 0; i < warmup; ++i) call();
  if (!device.is_cpu()) return time_on_gpu(call, device, runs);
  std::vector<double> seconds;
  for (int i = 0; i < runs; ++i) {
    const Clock::time_point start = Clock::now();
    call();
    seconds.push_back(
        std::chrono::duration<double>(Clock::now() - start).count());
  }
  return seconds;
}

double median(std::vector<double> values) {
  const std::size_t middle = values.size() / 2;
  std::nth_element(values.begin(),
                   values.begin() + static_cast<std::ptrdiff_t>(middle),
                   values.end());
  if (values.size() % 2 == 1) return values[middle];
  const double upper = values[middle];
  return (upper + *std::max_element(
                      values.begin(),
                      values.begin() + static_cast<std::ptrdiff_t>(middle))) /
         2;
}

Limits measure_limits(at::Device device) {
  const bool gpu = !device.is_cpu();
  const std::int64_t copied = gpu ? std::int64_t{1} << 31 : 1 << 26;  // floats
  const std::int64_t n = gpu ? 8192 : 1024;
  const at::TensorOptions fp32 = at::TensorOptions().device(device);
  Limits limits;
  {
    const at::Tensor from = at::rand({copied / 2}, fp32);
    const at::Tensor to = at::empty_like(from);
    const double s = median(time_calls([&] { to.copy_(from); }, device, 3, 21));
    limits.copy_bytes_per_s = 2 * static_cast<double>(from.nbytes()) / s;
  }
  const at::ScalarType type = gpu ? at::kBFloat16 : at::kFloat;
  const at::Tensor a = at::randn({n, n}, fp32).to(type);
  const at::Tensor b = at::randn({n, n}, fp32).to(type);
  at::Tensor c = at::empty_like(a);
  const double s =
      median(time_calls([&] { at::mm_out(c, a, b); }, device, 3, 21));
  limits.matrix_flops_per_s = 2 * static_cast<double>(n) *
                              static_cast<double>(n) * static_cast<double>(n) /
                              s;
  return limits;
}

}  // namespace osdn::bench
