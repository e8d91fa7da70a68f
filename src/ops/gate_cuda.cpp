#include "gate_cuda.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "cuda_call.h"
#include "tensor_check.h"

namespace osdn::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

kernels::GateShape shape_of(const at::Tensor& x, const GateChoice& choice) {
  kernels::GateShape shape;
  shape.kind = choice.kind;
  shape.tokens = x.size(0);
  shape.heads = x.size(1);
  shape.head_width = x.dim() == 3 ? x.size(2) : 1;
  shape.element = element_of(x);
  shape.lower_bound = static_cast<float>(choice.lower_bound);
  shape.scale = static_cast<float>(choice.scale);
  return shape;
}

class GateCudaFunction : public torch::autograd::Function<GateCudaFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x_given,
                            const MaybeTensor& A_log, const MaybeTensor& bias,
                            const GateChoice& choice) {
    const at::Tensor x = x_given.contiguous();
    const at::Tensor a = contiguous(A_log.value_or(at::Tensor()));
    const at::Tensor b = contiguous(bias.value_or(at::Tensor()));
    at::Tensor y = at::empty(x.sizes(), x.options().dtype(at::kFloat));
    kernels::GateFwdParams p;
    p.shape = shape_of(x, choice);
    p.x = pointer(x);
    p.a_log = floats(a);
    p.bias = floats(b);
    p.y = floats(y);
    kernels::gate_fwd(p, current_stream(x));
    ctx->save_for_backward({x, a, b});
    ctx->saved_data["kind"] = static_cast<std::int64_t>(choice.kind);
    ctx->saved_data["lower_bound"] = choice.lower_bound;
    ctx->saved_data["scale"] = choice.scale;
    return y;
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& grad_outputs) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor& x = saved[0];
    const GateChoice choice{
        static_cast<kernels::GateKind>(ctx->saved_data["kind"].toInt()),
        ctx->saved_data["lower_bound"].toDouble(),
        ctx->saved_data["scale"].toDouble()};
    const at::Tensor grad_y = grad_outputs[0].contiguous();
    const at::Tensor grad_x = empty_beside(x);
    const at::Tensor grad_a = empty_beside(saved[1]);
    const at::Tensor grad_bias = empty_beside(saved[2]);
    kernels::GateBwdParams p;
    p.shape = shape_of(x, choice);
    p.x = pointer(x);
    p.a_log = floats(saved[1]);
    p.bias = floats(saved[2]);
    p.grad_y = floats(grad_y);
    p.grad_x = pointer(grad_x);
    p.grad_a_log = floats(grad_a);
    p.grad_bias = floats(grad_bias);
    const at::Tensor workspace =
        device_bytes(kernels::gate_bwd_workspace_bytes(p), x);
    p.workspace = pointer(workspace);
    kernels::gate_bwd(p, current_stream(x));
    return {grad_x, grad_a, grad_bias, at::Tensor()};
  }
};

}  // namespace

at::Tensor gate_cuda(const at::Tensor& x, const at::Tensor& A_log,
                     const at::Tensor& bias, const GateChoice& choice) {
  return GateCudaFunction::apply(x, maybe(A_log), maybe(bias), choice);
}

}  // namespace osdn::ops
