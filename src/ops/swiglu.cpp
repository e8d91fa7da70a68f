#include "osdn/ops/swiglu.h"

#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>

#include "osdn/core/error.h"
#include "swiglu_cuda.h"
#include "tensor_check.h"

namespace osdn::ops {

at::Tensor swiglu_mlp(const at::Tensor& x, const at::Tensor& gate,
                      const at::Tensor& up, const at::Tensor& down) {
  constexpr const char* kName = "swiglu_mlp";
  if (!x.defined() || x.dim() != 2 || !gate.defined() || gate.dim() != 2) {
    throw Error("swiglu_mlp: x [T, h] and gate [i, h] are needed");
  }
  check_computable(kName, x);
  const std::int64_t h = x.size(1);
  const std::int64_t i = gate.size(0);
  check_tensor(kName, "gate", gate, {i, h}, x);
  check_tensor(kName, "up", up, {i, h}, x);
  check_tensor(kName, "down", down, {h, i}, x);
  if (x.is_cuda()) return swiglu_mlp_cuda(x, gate, up, down);
  return at::linear(at::silu(at::linear(x, gate)).mul(at::linear(x, up)), down);
}

}  // namespace osdn::ops
