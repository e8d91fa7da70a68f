#pragma once
// The write key d * k from a raw key, in float64: the L2 normalisation, the
// preconditioner's recurrence on the normalised key, and the way back.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/preconditioner_reference.h"

namespace osdn::reference {

/// `recurrence.k` is the raw key; its gradients are with respect to that.
struct KeyWriteInput {
  PreconditionerInput recurrence;
  bool l2_norm = true;
  bool detach = false;  ///< d is a constant for the gradients
};

struct KeyWriteOutput {
  std::vector<double> k_write;  ///< [T,HV,K], at the raw key's scale
  std::vector<double> d, d_T;   ///< [T,HV,K], [N,HV,K]
};

namespace detail {

/// 1 / sqrt(sum k^2 + 1e-6) of each key row.
inline std::vector<double> key_factors(const KeyWriteInput& in) {
  const std::size_t K = static_cast<std::size_t>(in.recurrence.key_width);
  const std::vector<double>& k = in.recurrence.k;
  std::vector<double> factors(k.size() / K, 1.0);
  for (std::size_t row = 0; in.l2_norm && row < factors.size(); ++row) {
    double sum = 1e-6;
    for (std::size_t c = 0; c < K; ++c) sum += k[row * K + c] * k[row * K + c];
    factors[row] = 1 / std::sqrt(sum);
  }
  return factors;
}

inline PreconditionerInput normalised(const KeyWriteInput& in) {
  PreconditionerInput out = in.recurrence;
  const std::size_t K = static_cast<std::size_t>(out.key_width);
  const std::vector<double> factors = key_factors(in);
  for (std::size_t i = 0; i < out.k.size(); ++i) out.k[i] *= factors[i / K];
  return out;
}

/// Index in k of element i of a [T,HV,K] tensor.
inline std::size_t key_index(const PreconditionerInput& in, std::size_t i) {
  const std::size_t K = static_cast<std::size_t>(in.key_width);
  const std::size_t HV = static_cast<std::size_t>(in.value_heads);
  const std::size_t H = static_cast<std::size_t>(in.key_heads);
  const std::size_t c = i % K, hv = i / K % HV, t = i / K / HV;
  return (t * H + hv / (HV / H)) * K + c;
}

}  // namespace detail

inline KeyWriteOutput key_write_forward(const KeyWriteInput& in) {
  PreconditionerOutput diagonal =
      preconditioner_forward(detail::normalised(in));
  KeyWriteOutput out{diagonal.d, std::move(diagonal.d), {}};
  out.d_T = std::move(diagonal.d_T);
  for (std::size_t i = 0; i < out.k_write.size(); ++i) {
    out.k_write[i] *= in.recurrence.k[detail::key_index(in.recurrence, i)];
  }
  return out;
}

inline PreconditionerGradients key_write_backward(
    const KeyWriteInput& in, const std::vector<double>& grad_k_write,
    const std::vector<double>& grad_d_T) {
  const PreconditionerInput& raw = in.recurrence;
  const std::size_t K = static_cast<std::size_t>(raw.key_width);
  const std::vector<double> d = key_write_forward(in).d;
  std::vector<double> grad_d(grad_k_write.size());
  for (std::size_t i = 0; i < grad_d.size(); ++i) {
    grad_d[i] = grad_k_write[i] * raw.k[detail::key_index(raw, i)];
  }
  PreconditionerGradients grad =
      preconditioner_backward(detail::normalised(in), grad_d, grad_d_T);
  if (in.detach) {
    grad.k.assign(grad.k.size(), 0);
    grad.beta.assign(grad.beta.size(), 0);
    grad.r.assign(grad.r.size(), 0);
    grad.d0.assign(grad.d0.size(), 0);
  }
  if (in.l2_norm) {
    const std::vector<double> factors = detail::key_factors(in);
    for (std::size_t row = 0; row < factors.size(); ++row) {
      const double f = factors[row];
      double dot = 0;
      for (std::size_t i = row * K; i < (row + 1) * K; ++i) {
        dot += raw.k[i] * grad.k[i];
      }
      for (std::size_t i = row * K; i < (row + 1) * K; ++i) {
        grad.k[i] = f * grad.k[i] - f * f * f * dot * raw.k[i];
      }
    }
  }
  for (std::size_t i = 0; i < grad_d.size(); ++i) {
    grad.k[detail::key_index(raw, i)] += grad_k_write[i] * d[i];
  }
  return grad;
}

}  // namespace osdn::reference
