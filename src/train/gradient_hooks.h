#pragma once
// Tells when a parameter's gradient of the running backward pass is there.

#include <cstddef>
#include <functional>

#include "osdn/model/language_model.h"

namespace osdn::train {

/// Installs hooks for its life. `arrived` is called with the parameter's index,
/// on the thread and stream that formed the gradient.
class GradientHooks {
 public:
  GradientHooks(const model::LanguageModel& model,
                const std::function<void(std::size_t)>& arrived);
  ~GradientHooks();
  GradientHooks(const GradientHooks&) = delete;
  GradientHooks& operator=(const GradientHooks&) = delete;

 private:
  const model::LanguageModel& model_;
};

}  // namespace osdn::train
