#pragma once
// What every kernel with a preconditioner must compute alike, bit for bit:
// norms, step sizes and the step of d. All arithmetic that decides a clip mask
// uses explicit roundings, so contraction cannot move a mask.

#include "kernels/preconditioner/preconditioner.cuh"

namespace osdn::kernels::precond {

/// What one token's step needs besides its key; equal in all lanes.
struct TokenScalars {
  float k_scale;    ///< 1 / sqrt(|k|^2 + 1e-6), or 1
  float rate;       ///< eta beta / n
  float rate_beta;  ///< rate * beta
  float r;
};

/// Scalars of a token from the sum of its squared raw channels. `energy_slope`
/// is dn / d(energy) / n: what the norm adds to the key's gradient.
__device__ __forceinline__ TokenScalars token_scalars(
    const PreconditionerShape& shape, float sum_squares, float beta, float r,
    float* inverse_n = nullptr, float* energy_slope = nullptr) {
  TokenScalars token;
  token.k_scale =
      shape.l2_norm ? __frsqrt_rn(__fadd_rn(sum_squares, 1e-6f)) : 1.0f;
  const float energy =
      __fmul_rn(sum_squares, __fmul_rn(token.k_scale, token.k_scale));
  float n = 1.0f;
  bool depends = false;
  if (shape.energy == KeyEnergy::kFloor) {
    depends = energy > 1e-6f;
    n = energy < 1e-6f ? 1e-6f : energy;
  } else if (shape.energy == KeyEnergy::kAdd) {
    depends = true;
    n = __fadd_rn(energy, 1e-5f);
  }
  if (!shape.beta_aware) beta = 1.0f;
  token.rate = __fdiv_rn(__fmul_rn(shape.eta, beta), n);
  token.rate_beta = __fmul_rn(token.rate, beta);
  token.r = r;
  if (inverse_n != nullptr) *inverse_n = __fdiv_rn(1.0f, n);
  if (energy_slope != nullptr) {
    *energy_slope = depends ? __fdiv_rn(1.0f, n) : 0.0f;
  }
  return token;
}

/// a_t = eta beta (1 - beta s) / n.
__device__ __forceinline__ float step_size(float rate, float rate_beta,
                                           float s) {
  return __fmaf_rn(-rate_beta, s, rate);
}

__device__ __forceinline__ float squared(float k, float k_scale) {
  const float kh = __fmul_rn(k, k_scale);
  return __fmul_rn(kh, kh);
}

/// d before the clip.
__device__ __forceinline__ float stepped(float d, float r, float a,
                                         float k_sq) {
  return __fmaf_rn(a, k_sq, __fmul_rn(r, d));
}

/// fminf and fmaxf would turn a NaN into a bound.
__device__ __forceinline__ float clip(float x, float lo, float hi) {
#ifdef OSDN_CUDA_EMULATOR
  if (!(x >= lo)) x = x != x ? x : lo;
  return x > hi ? hi : x;
#else
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(lo));
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(hi));
  return x;
#endif
}

}  // namespace osdn::kernels::precond
