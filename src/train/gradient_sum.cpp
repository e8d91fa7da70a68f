#include "osdn/train/gradient_sum.h"

namespace osdn::train {

GradientSum::GradientSum(const model::LanguageModel& model)
    : model_(model), sums_(model.parameters().size()) {}

void GradientSum::take() {
  const auto& parameters = model_.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& tensor = parameters[i].tensor;
    if (tensor.scalar_type() != at::kBFloat16 || !tensor.grad().defined()) {
      continue;
    }
    at::Tensor& sum = sums_[i];
    if (!sum.defined()) {
      sum = tensor.grad();
    } else {
      if (sum.scalar_type() != at::kFloat) sum = sum.to(at::kFloat);
      sum.add_(tensor.grad());
    }
    tensor.mutable_grad().reset();
  }
}

at::Tensor GradientSum::take_total(std::size_t parameter) {
  const at::Tensor& tensor = model_.parameters()[parameter].tensor;
  at::Tensor total = sums_[parameter];
  if (tensor.grad().defined()) {
    total = total.defined() ? total.to(at::kFloat).add_(tensor.grad())
                            : tensor.grad();
    tensor.mutable_grad().reset();
  }
  return total;
}

void GradientSum::finish() {
  const auto& parameters = model_.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (sums_[i].defined()) parameters[i].tensor.mutable_grad() = sums_[i];
  }
}

}  // namespace osdn::train
