#pragma once
// Packed loads and stores of bf16 and fp32, always as fp32 in registers.

#include <cuda_bf16.h>

namespace osdn::kernels {

/// N elements that move as one access.
template <typename T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T at[N];
};

/// Elements of a 16-byte access.
template <typename T>
inline constexpr int kPackOf = 16 / static_cast<int>(sizeof(T));

__device__ __forceinline__ float to_float(float x) {
  return x;
}
__device__ __forceinline__ float to_float(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
template <typename T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

template <typename T, int N>
__device__ __forceinline__ Pack<T, N> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}

/// bf16 goes in pairs: a shift and a mask, or one conversion, for two elements.
template <typename T, int N>
inline constexpr bool kInPairs = sizeof(T) == 2 && N % 2 == 0;

/// Element i of a pack, i known at compile time after unrolling.
template <typename T, int N>
__device__ __forceinline__ float value_at(const Pack<T, N>& pack, int i) {
  if constexpr (kInPairs<T, N>) {
    const unsigned word = reinterpret_cast<const unsigned*>(&pack)[i / 2];
    return __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xffff0000u);
  } else {
    return to_float(pack.at[i]);
  }
}

template <int N, typename T>
__device__ __forceinline__ void unpack(const Pack<T, N>& pack, float (&to)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = value_at(pack, i);
}

template <typename T, int N>
__device__ __forceinline__ Pack<T, N> pack_floats(const float (&from)[N]) {
  Pack<T, N> pack;
  if constexpr (kInPairs<T, N>) {
    auto* pairs = reinterpret_cast<__nv_bfloat162*>(&pack);
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      pairs[i] = __floats2bfloat162_rn(from[2 * i], from[2 * i + 1]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) pack.at[i] = from_float<T>(from[i]);
  }
  return pack;
}

/// Makes the compiler take the pack as new, so that it keeps the packed words
/// in registers over a reduction and not the floats made from them before.
template <typename T, int N>
__device__ __forceinline__ void keep_packed(Pack<T, N>& pack) {
  if constexpr (sizeof(pack) % 4 == 0) {
    auto* words = reinterpret_cast<unsigned*>(&pack);
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(pack) / 4); ++i) {
      asm volatile("" : "+r"(words[i]));
    }
  }
}

template <int N, typename T>
__device__ __forceinline__ void load_floats(const T* from, float (&to)[N]) {
  unpack<N, T>(load_pack<T, N>(from), to);
}

template <int N, typename T>
__device__ __forceinline__ void store_floats(T* to, const float (&from)[N]) {
  *reinterpret_cast<Pack<T, N>*>(to) = pack_floats<T, N>(from);
}

}  // namespace osdn::kernels
