#include "osdn/ops/gate.h"

#include <ATen/ops/clamp_max.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>

#include "gate_cuda.h"
#include "osdn/core/error.h"
#include "tensor_check.h"

namespace osdn::ops {
namespace {

/// exp(A) of a larger A_log is a decay of everything; the kernels agree on it.
constexpr double kMaxLogRate = 80.0;

void check_inputs(const char* op, const at::Tensor& x, const at::Tensor& A_log,
                  const at::Tensor& bias) {
  if (!x.defined() || x.dim() < 2 || x.dim() > 3) {
    throw Error(std::string(op) + ": x [T, HV] or [T, HV, K] is needed");
  }
  check_computable(op, x);
  if (A_log.defined()) check_control(op, "A_log", A_log, {x.size(1)}, x);
  if (bias.defined()) {
    check_control(op, "bias", bias, x.sizes().slice(1).vec(), x);
  }
}

/// exp(A_log), with a trailing 1 where x has a value per channel.
at::Tensor rate_beside(const at::Tensor& x, const at::Tensor& A_log) {
  const at::Tensor rate = at::exp(at::clamp_max(A_log, kMaxLogRate));
  return x.dim() == 3 ? rate.unsqueeze(-1) : rate;
}

}  // namespace

at::Tensor softplus_decay(const at::Tensor& x, const at::Tensor& A_log,
                          const at::Tensor& bias) {
  check_inputs("softplus_decay", x, A_log, bias);
  if (x.is_cuda()) {
    return gate_cuda(x, A_log, bias, {kernels::GateKind::kSoftplusDecay});
  }
  return at::softplus(x.add(bias)).mul(rate_beside(x, A_log).neg());
}

at::Tensor bounded_decay(const at::Tensor& x, const at::Tensor& A_log,
                         const at::Tensor& bias, double lower_bound) {
  check_inputs("bounded_decay", x, A_log, bias);
  if (x.is_cuda()) {
    return gate_cuda(x, A_log, bias,
                     {kernels::GateKind::kBoundedDecay, lower_bound});
  }
  return at::sigmoid(x.add(bias).mul(rate_beside(x, A_log))).mul(lower_bound);
}

at::Tensor sigmoid_gate(const at::Tensor& x, const at::Tensor& bias,
                        double scale) {
  check_inputs("sigmoid_gate", x, {}, bias);
  if (x.is_cuda()) {
    return gate_cuda(x, {}, bias, {kernels::GateKind::kSigmoid, 0, scale});
  }
  const at::Tensor y = at::sigmoid(bias.defined() ? x.add(bias) : x);
  return scale == 1 ? y : y.mul(scale);
}

}  // namespace osdn::ops
