#pragma once
// Small device functions that every kernel uses: bf16 storage, base-2
// exponentials, warp reductions. Built by nvcc, or by the host compiler with
// tests/gpu/cuda_emulator.h included first, which then supplies the
// instructions.

#include <cstdint>

namespace osdn::kernels {

/// bf16 in memory; arithmetic is always fp32.
struct Bf16 {
  std::uint16_t bits;
};

__device__ __forceinline__ float bits_to_float(std::uint32_t bits) {
#ifdef OSDN_CUDA_EMULATOR
  return emulator::bit_cast_float(bits);
#else
  return __uint_as_float(bits);
#endif
}

/// Two floats rounded to nearest even, `low` in the lower half.
__device__ __forceinline__ std::uint32_t pack_bf16(float low, float high) {
#ifdef OSDN_CUDA_EMULATOR
  return emulator::pack_bf16(low, high);
#else
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
#endif
}
__device__ __forceinline__ float low_bf16(std::uint32_t packed) {
  return bits_to_float(packed << 16);
}
__device__ __forceinline__ float high_bf16(std::uint32_t packed) {
  return bits_to_float(packed & 0xffff0000u);
}

__device__ __forceinline__ float widen(float x) {
  return x;
}
__device__ __forceinline__ float widen(Bf16 x) {
  return bits_to_float(static_cast<std::uint32_t>(x.bits) << 16);
}
template <typename T>
__device__ __forceinline__ T narrow_to(float x);
template <>
__device__ __forceinline__ float narrow_to<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ Bf16 narrow_to<Bf16>(float x) {
  return Bf16{static_cast<std::uint16_t>(pack_bf16(x, 0.f) & 0xffffu)};
}

/// 2^x for x <= 0; results below the normal range are 0.
__device__ __forceinline__ float exp2_nonpositive(float x) {
#ifdef OSDN_CUDA_EMULATOR
  return emulator::exp2_ftz(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

inline constexpr float kLog2E = 1.4426950408889634f;

template <int kLanes = 32>
__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    x += __shfl_xor_sync(0xffffffffu, x, step);
  }
  return x;
}

/// The same value, but the compiler cannot tell: what is computed from it
/// inside a loop stays there instead of filling registers before the loop.
__device__ __forceinline__ int opaque(int x) {
#ifndef OSDN_CUDA_EMULATOR
  asm volatile("" : "+r"(x));
#endif
  return x;
}

/// The block's dynamic shared memory, 16-byte aligned by the hardware's rule
/// (1024 where a kernel uses no static shared memory).
__device__ __forceinline__ unsigned char* dynamic_shared() {
#ifdef OSDN_CUDA_EMULATOR
  return emulator::dynamic_shared();
#else
  extern __shared__ __align__(1024) unsigned char dynamic_shared_bytes[];
  return dynamic_shared_bytes;
#endif
}

}  // namespace osdn::kernels
