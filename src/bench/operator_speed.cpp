#include "osdn/bench/operator_speed.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "osdn/ops/gpu_graph.h"

namespace osdn::bench {
namespace {

/// Of one call, without the gaps that the host leaves between small ones.
double median_of_recorded(const std::function<void()>& call, at::Device device,
                          int warmup, int runs) {
  constexpr int kCalls = 20;
  const ops::GpuGraph calls(device, call, [&] {
    for (int i = 0; i < kCalls; ++i) call();
  });
  return median(time_calls([&] { calls.run(); }, device, warmup, runs)) /
         kCalls;
}

}  // namespace

OperatorSpeed time_operator(const OperatorCase& c, const Limits& limits,
                            at::Device device, int runs) {
  constexpr std::uint64_t kSeed = 1;
  constexpr int kWarmup = 3;
  const ops::Documents documents(c.cu_seqlens);
  std::vector<at::Tensor> inputs;
  for (const OperatorInput& input : c.draw(kSeed, device)) {
    at::Tensor value = input.role == Role::kActivation
                           ? input.value.to(at::kBFloat16)
                           : input.value;
    value.requires_grad_(c.differentiable && input.role != Role::kLabels);
    inputs.push_back(value);
  }
  OperatorSpeed speed{c.op, c.shape,
                      std::max(c.flops / limits.matrix_flops_per_s,
                               c.bytes / limits.copy_bytes_per_s)};
  if (!c.differentiable) {
    const at::NoGradGuard no_grad;
    speed.forward_s = median_of_recorded([&] { c.run(inputs, documents); },
                                         device, kWarmup, runs);
    return speed;
  }
  {
    const at::NoGradGuard no_grad;
    speed.forward_s = median(
        time_calls([&] { c.run(inputs, documents); }, device, kWarmup, runs));
  }
  std::vector<at::Tensor> gradients;
  const auto both = [&] {
    const std::vector<at::Tensor> outputs = c.run(inputs, documents);
    if (gradients.empty()) {
      for (const at::Tensor& output : outputs) {
        gradients.push_back(at::randn_like(output));
      }
    }
    torch::autograd::backward(outputs, gradients);
    for (const at::Tensor& input : inputs) input.mutable_grad().reset();
  };
  speed.both_s = median(time_calls(both, device, kWarmup, runs));
  return speed;
}

}  // namespace osdn::bench
