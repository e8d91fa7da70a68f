#pragma once
// The recurrence of the diagonal preconditioner token by token in float64,
// forward and reverse mode; d_t is the value before token t's own update:
//   n = max(|k|^2, 1e-6);  k2 = k * k;  s = <d, k2>
//   d <- clip(r d + eta beta (1 - beta s) / n k2, lo, hi)
// Without beta_aware the factor is eta (1 - s) / n; n has two other forms.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace osdn::reference {

enum class KeyEnergy {
  kFloor,  ///< n = max(|k|^2, 1e-6)
  kOff,    ///< n = 1
  kAdd,    ///< n = |k|^2 + 1e-5
};

struct PreconditionerInput {
  std::int64_t key_heads = 1, value_heads = 1, key_width = 1;
  double eta = 0, box_lo = 0.5, box_hi = 2;
  bool beta_aware = true;
  KeyEnergy energy = KeyEnergy::kFloor;
  std::vector<std::int64_t> cu_seqlens;  ///< [N+1]
  std::vector<double> k;                 ///< [T,H,K], normalised
  std::vector<double> beta;              ///< [T,HV]
  std::vector<double> r;                 ///< empty (1) or [T,HV]
  std::vector<double> d0;                ///< [HV,K] or [N,HV,K]

  std::int64_t tokens() const { return cu_seqlens.back(); }
  std::int64_t documents() const {
    return static_cast<std::int64_t>(cu_seqlens.size()) - 1;
  }
  /// Where the start of document n, value head h lies in d0.
  std::int64_t start_at(std::int64_t n, std::int64_t h) const {
    const bool shared =
        static_cast<std::int64_t>(d0.size()) == value_heads * key_width;
    return ((shared ? 0 : n * value_heads) + h) * key_width;
  }
  double divisor(double key_energy) const {
    if (energy == KeyEnergy::kOff) return 1;
    if (energy == KeyEnergy::kAdd) return key_energy + 1e-5;
    return std::max(key_energy, kFloor);
  }
  /// dn / d|k|^2
  double divisor_slope(double key_energy) const {
    if (energy == KeyEnergy::kOff) return 0;
    if (energy == KeyEnergy::kAdd) return 1;
    return key_energy > kFloor ? 1 : 0;
  }

  static constexpr double kFloor = 1e-6;
};

struct PreconditionerOutput {
  std::vector<double> d;    ///< [T,HV,K]
  std::vector<double> d_T;  ///< [N,HV,K]
};

struct PreconditionerGradients {
  std::vector<double> k, beta, r, d0;
};

inline PreconditionerOutput preconditioner_forward(
    const PreconditionerInput& in) {
  const std::int64_t K = in.key_width, HV = in.value_heads;
  const std::int64_t group = HV / in.key_heads;
  PreconditionerOutput out;
  out.d.resize(static_cast<std::size_t>(in.tokens() * HV * K));
  out.d_T.resize(static_cast<std::size_t>(in.documents() * HV * K));
  for (std::int64_t n = 0; n < in.documents(); ++n) {
    for (std::int64_t h = 0; h < HV; ++h) {
      const auto start = in.d0.begin() + in.start_at(n, h);
      std::vector<double> d(start, start + K);
      for (std::int64_t t = in.cu_seqlens[static_cast<std::size_t>(n)];
           t < in.cu_seqlens[static_cast<std::size_t>(n) + 1]; ++t) {
        std::copy(d.begin(), d.end(), out.d.begin() + (t * HV + h) * K);
        const double* k =
            &in.k[static_cast<std::size_t>((t * in.key_heads + h / group) * K)];
        const std::size_t at = static_cast<std::size_t>(t * HV + h);
        double energy = 0, s = 0;
        for (std::int64_t c = 0; c < K; ++c) {
          energy += k[c] * k[c];
          s += d[static_cast<std::size_t>(c)] * k[c] * k[c];
        }
        const double beta = in.beta_aware ? in.beta[at] : 1.0;
        const double a = in.eta * beta * (1 - beta * s) / in.divisor(energy);
        const double r = in.r.empty() ? 1.0 : in.r[at];
        for (std::int64_t c = 0; c < K; ++c) {
          double& d_c = d[static_cast<std::size_t>(c)];
          d_c = std::clamp(r * d_c + a * k[c] * k[c], in.box_lo, in.box_hi);
        }
      }
      std::copy(d.begin(), d.end(), out.d_T.begin() + (n * HV + h) * K);
    }
  }
  return out;
}

/// `grad_d` [T,HV,K] is the gradient of each token's d, `grad_d_T` [N,HV,K]
/// that of the final one (empty: zeros).
inline PreconditionerGradients preconditioner_backward(
    const PreconditionerInput& in, const std::vector<double>& grad_d,
    const std::vector<double>& grad_d_T) {
  const std::int64_t K = in.key_width, HV = in.value_heads;
  const std::int64_t group = HV / in.key_heads;
  const std::vector<double> all_d = preconditioner_forward(in).d;
  PreconditionerGradients grad;
  grad.k.assign(in.k.size(), 0);
  grad.beta.assign(in.beta.size(), 0);
  grad.r.assign(in.r.size(), 0);
  grad.d0.assign(in.d0.size(), 0);
  std::vector<double> lambda(static_cast<std::size_t>(K));
  for (std::int64_t n = 0; n < in.documents(); ++n) {
    for (std::int64_t h = 0; h < HV; ++h) {
      std::fill(lambda.begin(), lambda.end(), 0.0);
      if (!grad_d_T.empty()) {
        std::copy_n(grad_d_T.begin() + (n * HV + h) * K, K, lambda.begin());
      }
      for (std::int64_t t = in.cu_seqlens[static_cast<std::size_t>(n) + 1] - 1;
           t >= in.cu_seqlens[static_cast<std::size_t>(n)]; --t) {
        const std::size_t key =
            static_cast<std::size_t>((t * in.key_heads + h / group) * K);
        const std::size_t at = static_cast<std::size_t>(t * HV + h);
        const double* k = &in.k[key];
        const double* d = &all_d[at * static_cast<std::size_t>(K)];
        double energy = 0, s = 0;
        for (std::int64_t c = 0; c < K; ++c) {
          energy += k[c] * k[c];
          s += d[c] * k[c] * k[c];
        }
        const double divisor = in.divisor(energy);
        const double beta = in.beta_aware ? in.beta[at] : 1.0;
        const double rate = in.eta * beta / divisor;
        const double a = rate * (1 - beta * s);
        const double r = in.r.empty() ? 1.0 : in.r[at];
        double pull = 0, dr = 0;  // pull = dL/da
        for (std::int64_t c = 0; c < K; ++c) {
          double& l = lambda[static_cast<std::size_t>(c)];
          const double unclipped = r * d[c] + a * k[c] * k[c];
          if (unclipped < in.box_lo || unclipped > in.box_hi) l = 0;
          pull += l * k[c] * k[c];
          dr += l * d[c];
        }
        if (!in.r.empty()) grad.r[at] = dr;
        if (in.beta_aware) {
          grad.beta[at] = pull * in.eta * (1 - 2 * beta * s) / divisor;
        }
        const double ds = -pull * rate * beta;
        const double denergy = -pull * a / divisor * in.divisor_slope(energy);
        for (std::int64_t c = 0; c < K; ++c) {
          double& l = lambda[static_cast<std::size_t>(c)];
          const double dk2 = a * l + ds * d[c] + denergy;
          grad.k[key + static_cast<std::size_t>(c)] += 2 * k[c] * dk2;
          l = r * l + ds * k[c] * k[c] +
              grad_d[at * static_cast<std::size_t>(K) +
                     static_cast<std::size_t>(c)];
        }
      }
      for (std::int64_t c = 0; c < K; ++c) {
        grad.d0[static_cast<std::size_t>(in.start_at(n, h) + c)] +=
            lambda[static_cast<std::size_t>(c)];
      }
    }
  }
  return grad;
}

}  // namespace osdn::reference
