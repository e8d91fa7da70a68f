#pragma once
// Exponential, sigmoid and SiLU in fp32 on the special-function unit: relative
// error below 1e-6 for |x| < 20, the right limits beyond, NaN for NaN. The ftz
// forms take one instruction where the others add a test for denormals.

namespace osdn::kernels {

__device__ __forceinline__ float exponential(float x) {
#ifdef OSDN_CUDA_EMULATOR
  return emulator::exp_ftz(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
  return y;
#endif
}

__device__ __forceinline__ float reciprocal(float x) {
#ifdef OSDN_CUDA_EMULATOR
  return 1.0f / x;
#else
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

__device__ __forceinline__ float sigmoid(float x) {
  return reciprocal(1.0f + exponential(-x));
}

__device__ __forceinline__ float silu(float x) {
  return x * sigmoid(x);
}

/// d silu / dx from x and sigmoid(x).
__device__ __forceinline__ float silu_slope(float x, float sigmoid_x) {
  return sigmoid_x * fmaf(x, 1.0f - sigmoid_x, 1.0f);
}

}  // namespace osdn::kernels
