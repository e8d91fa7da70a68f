#include "osdn/ops/norm.h"

#include <ATen/ops/rms_norm.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>

#include "norm_cuda.h"
#include "osdn/core/error.h"
#include "tensor_check.h"

namespace osdn::ops {
namespace {

void check_norm(const char* op, const at::Tensor& x, const at::Tensor& weight) {
  if (!x.defined() || x.dim() < 1) {
    throw Error(std::string(op) + ": an input with a last dimension is needed");
  }
  check_computable(op, x);
  check_control(op, "weight", weight, {x.size(-1)}, x);
}

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  check_norm("rms_norm", x, weight);
  if (x.is_cuda()) return rms_norm_cuda(x, {}, weight, eps).y;
  return at::rms_norm(x, {x.size(-1)}, weight, eps);
}

ResidualNorm add_rms_norm(const at::Tensor& x, const at::Tensor& residual,
                          const at::Tensor& weight, double eps) {
  check_norm("add_rms_norm", x, weight);
  check_tensor("add_rms_norm", "residual", residual, x.sizes().vec(), x);
  if (x.is_cuda()) return rms_norm_cuda(x, residual, weight, eps);
  const at::Tensor sum = residual.add(x);
  return {sum, rms_norm(sum, weight, eps)};
}

at::Tensor gated_rms_norm(const at::Tensor& o, const at::Tensor& gate,
                          const at::Tensor& weight, GateActivation activation,
                          double eps) {
  if (!o.defined() || o.dim() != 3) {
    throw Error("gated_rms_norm: o [T, HV, V] is needed");
  }
  check_norm("gated_rms_norm", o, weight);
  if (gate.defined()) {
    check_tensor("gated_rms_norm", "gate", gate,
                 {o.size(0), o.size(1) * o.size(2)}, o);
  }
  if (o.is_cuda()) {
    return gated_rms_norm_cuda(o, gate, weight, activation, eps);
  }
  const at::Tensor y = rms_norm(o, weight, eps);
  if (!gate.defined()) return y;
  const at::Tensor z = gate.view_as(o);
  return y.mul(activation == GateActivation::kSilu ? at::silu(z)
                                                   : at::sigmoid(z));
}

}  // namespace osdn::ops
