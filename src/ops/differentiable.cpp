#include "differentiable.h"

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace osdn::ops {
namespace {

using torch::autograd::AutogradContext;

// What an autograd context can keep of an operator.
struct KeptBackward : torch::CustomClassHolder {
  std::function<Tensors(const BackwardCall&)> run;
  std::vector<bool> given;  ///< by input: it was defined
};

class Operator : public torch::autograd::Function<Operator> {
 public:
  static Tensors forward(AutogradContext* ctx, at::TensorList /*inputs*/,
                         const std::function<ForwardResult()>& run,
                         const std::vector<bool>& given) {
    ForwardResult result = run();
    ctx->save_for_backward(std::move(result.saved));
    ctx->set_materialize_grads(false);
    auto kept = c10::make_intrusive<KeptBackward>();
    kept->run = std::move(result.backward);
    kept->given = given;
    ctx->saved_data["backward"] = c10::IValue::make_capsule(std::move(kept));
    return std::move(result.outputs);
  }

  static Tensors backward(AutogradContext* ctx, const Tensors& grad_outputs) {
    const auto capsule = ctx->saved_data["backward"].toCapsule();
    const auto& kept = static_cast<const KeptBackward&>(*capsule);
    std::vector<bool> needed;
    std::size_t edge = 0;
    for (const bool given : kept.given) {
      needed.push_back(given && ctx->needs_input_grad(edge));
      edge += given;
    }
    const Tensors saved = ctx->get_saved_variables();
    const Tensors all = kept.run({saved, grad_outputs, needed});
    Tensors grads;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (kept.given[i]) grads.push_back(all[i]);
    }
    grads.resize(grads.size() + 2);  // of `run` and `given`
    return grads;
  }
};

}  // namespace

Tensors differentiable(const Tensors& inputs,
                       const std::function<ForwardResult()>& forward) {
  std::vector<bool> given;
  Tensors defined;
  for (const at::Tensor& input : inputs) {
    given.push_back(input.defined());
    if (input.defined()) defined.push_back(input);
  }
  return Operator::apply(at::TensorList(defined), forward, given);
}

}  // namespace osdn::ops
