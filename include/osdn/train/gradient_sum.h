#pragma once
// The gradient of a step, summed over its micro-batches in fp32 or better.

#include <ATen/core/Tensor.h>

#include <vector>

#include "osdn/model/language_model.h"

namespace osdn::train {

/// fp32 and fp64 parameters sum in place, as autograd does. What a backward
/// pass leaves in a bf16 parameter is rounded once; from the second pass on it
/// is added to an fp32 sum.
class GradientSum {
 public:
  explicit GradientSum(const model::LanguageModel& model);

  /// After each backward pass.
  void take();
  /// Of one parameter, the pass that runs included; its memory is the caller's
  /// from then on. Undefined where there was no gradient.
  at::Tensor take_total(std::size_t parameter);
  /// Leaves the sums as the parameters' gradients: bf16 after one pass, else
  /// fp32.
  void finish();

 private:
  /// The parameter's gradient moves into its sum.
  void add(std::size_t parameter);

  const model::LanguageModel& model_;
  std::vector<at::Tensor> sums_;
};

}  // namespace osdn::train
