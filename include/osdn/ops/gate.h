#pragma once
// The small gates of an attention layer, from logits to values, layers.md 4 to
// 6. With z = x + bias and A = A_log of the head, taken as at most 80 so that
// exp(A) is finite:
//
//   softplus_decay: g = -exp(A) softplus(z)            GDN, KDA
//   bounded_decay:  g = lower_bound sigmoid(exp(A) z)  KDA
//   sigmoid_gate:   scale sigmoid(z)                   beta, r
//
// x [T, HV] or, a value per channel, [T, HV, K]. On the CPU everything is of
// one dtype; on a GPU x is bfloat16 or float, the rest and the result float.
// All differentiable.

#include <ATen/core/Tensor.h>

namespace osdn::ops {

/// A_log [HV], bias of x's shape without T.
at::Tensor softplus_decay(const at::Tensor& x, const at::Tensor& A_log,
                          const at::Tensor& bias);
at::Tensor bounded_decay(const at::Tensor& x, const at::Tensor& A_log,
                         const at::Tensor& bias, double lower_bound);
/// bias may be undefined: zeros.
at::Tensor sigmoid_gate(const at::Tensor& x, const at::Tensor& bias,
                        double scale = 1);

}  // namespace osdn::ops
