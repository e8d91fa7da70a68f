#include "osdn/layers/functions.h"

#include <ATen/ATen.h>

namespace osdn::layers {

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double eps) {
  return at::rms_norm(x, {x.size(-1)}, weight, eps);
}

at::Tensor swiglu(const at::Tensor& x, const at::Tensor& gate,
                  const at::Tensor& up, const at::Tensor& down) {
  return at::linear(at::silu(at::linear(x, gate)) * at::linear(x, up), down);
}

}  // namespace osdn::layers
