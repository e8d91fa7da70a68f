#include "gradient_hooks.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace osdn::train {

namespace {

class Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(std::size_t parameter, std::function<void(std::size_t)> arrived)
      : parameter_(parameter), arrived_(std::move(arrived)) {}
  void operator()(const at::Tensor& /*tensor*/) override {
    arrived_(parameter_);
  }

 private:
  std::size_t parameter_;
  std::function<void(std::size_t)> arrived_;
};

}  // namespace

GradientHooks::GradientHooks(const model::LanguageModel& model,
                             const std::function<void(std::size_t)>& arrived)
    : model_(model) {
  const auto& parameters = model.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameters[i].tensor, std::make_unique<Hook>(i, arrived));
  }
}

GradientHooks::~GradientHooks() {
  for (const model::ModelParameter& p : model_.parameters()) {
    torch::autograd::impl::set_post_acc_grad_hooks(p.tensor, nullptr);
  }
}

}  // namespace osdn::train
