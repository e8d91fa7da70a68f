#include "osdn/bench/compare.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

namespace osdn::bench {
namespace {

/// The value as a device of that dtype holds it.
at::Tensor held(const OperatorInput& input, at::Device device,
                at::ScalarType dtype) {
  at::ScalarType type = dtype;
  if (input.role == Role::kLabels) {
    type = at::kLong;
  } else if (input.role == Role::kControl && dtype == at::kBFloat16) {
    type = at::kFloat;
  }
  return input.value.to(device, type);
}

double relative_error(const at::Tensor& value, const at::Tensor& reference) {
  const at::Tensor x = value.cpu().to(at::kDouble);
  const double size = reference.norm().item<double>();
  const double difference = (x - reference).norm().item<double>();
  return size > 0 ? difference / size : difference;
}

bool wants_gradient(const OperatorCase& c, const OperatorInput& input) {
  return c.differentiable && input.role != Role::kLabels;
}

}  // namespace

at::Tensor upstream_gradient(const at::Tensor& output, std::uint64_t seed) {
  at::Generator generator =
      at::globalContext().defaultGenerator(at::kCPU).clone();
  generator.set_current_seed(seed);
  return at::randn(output.sizes(), generator, at::kFloat)
      .to(at::kBFloat16)
      .to(output.device(), output.scalar_type());
}

std::vector<at::Tensor> run_both_ways(const OperatorCase& c,
                                      const std::vector<OperatorInput>& inputs,
                                      at::Device device, at::ScalarType dtype,
                                      std::uint64_t seed) {
  const at::AutoGradMode gradients_on(c.differentiable);
  std::vector<at::Tensor> leaves;
  for (const OperatorInput& input : inputs) {
    at::Tensor leaf = held(input, device, dtype).detach().clone();
    leaf.requires_grad_(wants_gradient(c, input));
    leaves.push_back(leaf);
  }
  const std::vector<at::Tensor> outputs =
      c.run(leaves, ops::Documents(c.cu_seqlens));
  if (!c.differentiable) return outputs;
  std::vector<at::Tensor> all;
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& output : outputs) {
    gradients.push_back(upstream_gradient(output, seed + gradients.size()));
    all.push_back(output.detach());
  }
  torch::autograd::backward(outputs, gradients);
  for (const at::Tensor& leaf : leaves) {
    if (leaf.requires_grad()) all.push_back(leaf.grad());
  }
  return all;
}

std::vector<Difference> compare(const OperatorCase& c, at::Device device,
                                at::ScalarType dtype, std::uint64_t seed) {
  const std::vector<OperatorInput> drawn = c.draw(seed, at::kCPU);
  std::vector<OperatorInput> rounded = drawn;
  for (OperatorInput& input : rounded) {
    if (input.role == Role::kLabels) continue;
    input.value = held(input, at::kCPU, dtype).to(at::kDouble);
  }
  const auto reference =
      run_both_ways(c, rounded, at::kCPU, at::kDouble, seed + 1);
  const auto tested = run_both_ways(c, drawn, device, dtype, seed + 1);
  std::vector<std::string> names;
  std::vector<std::string> gradients;
  for (const OperatorInput& input : drawn) {
    if (wants_gradient(c, input)) {
      gradients.push_back("gradient of " + input.name);
    }
  }
  for (std::size_t i = 0; i + gradients.size() < reference.size(); ++i) {
    names.push_back("output " + std::to_string(i));
  }
  names.insert(names.end(), gradients.begin(), gradients.end());
  std::vector<Difference> differences;
  for (std::size_t i = 0; i < names.size(); ++i) {
    differences.push_back({names[i], relative_error(tested[i], reference[i])});
  }
  return differences;
}

}  // namespace osdn::bench
