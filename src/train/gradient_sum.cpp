#include "osdn/train/gradient_sum.h"

#include <utility>

namespace osdn::train {

GradientSum::GradientSum(const model::LanguageModel& model)
    : model_(model), sums_(model.parameters().size()) {}

void GradientSum::take() {
  const auto& parameters = model_.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].tensor.scalar_type() == at::kBFloat16) add(i);
  }
}

void GradientSum::add(std::size_t parameter) {
  at::Tensor& gradient = model_.parameters()[parameter].tensor.mutable_grad();
  if (!gradient.defined()) return;
  at::Tensor& sum = sums_[parameter];
  if (!sum.defined()) {
    sum = gradient;
  } else {
    if (sum.scalar_type() == at::kBFloat16) sum = sum.to(at::kFloat);
    sum.add_(gradient);
  }
  gradient.reset();
}

at::Tensor GradientSum::take_total(std::size_t parameter) {
  add(parameter);
  return std::exchange(sums_[parameter], at::Tensor());
}

void GradientSum::finish() {
  const auto& parameters = model_.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (sums_[i].defined()) parameters[i].tensor.mutable_grad() = sums_[i];
  }
}

}  // namespace osdn::train
