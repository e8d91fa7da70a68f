#pragma once
// Where layers take their weights from: a model's parameters by name.

#include <ATen/core/Tensor.h>

#include <string>
#include <unordered_map>

namespace osdn::layers {

class ParameterSource {
 public:
  void add(const std::string& name, at::Tensor tensor);
  /// Throws Error naming the parameter when it does not exist.
  const at::Tensor& get(const std::string& name) const;
  /// Undefined when it does not exist.
  at::Tensor find(const std::string& name) const;

 private:
  std::unordered_map<std::string, at::Tensor> tensors_;
};

}  // namespace osdn::layers
