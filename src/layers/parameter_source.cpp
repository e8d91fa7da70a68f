#include "osdn/layers/parameter_source.h"

#include "osdn/core/error.h"

namespace osdn::layers {

void ParameterSource::add(const std::string& name, at::Tensor tensor) {
  tensors_.insert_or_assign(name, std::move(tensor));
}

const at::Tensor& ParameterSource::get(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    throw Error("the model has no parameter " + name);
  }
  return found->second;
}

at::Tensor ParameterSource::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? at::Tensor() : found->second;
}

}  // namespace osdn::layers
