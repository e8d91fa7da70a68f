#pragma once
// Matrix instructions of a warpgroup, left operand in registers, right operand
// in shared memory in tiles of 64 bf16 columns with the 128-byte swizzle
// (Tile of mma.cuh), each aligned to 1024 bytes.

#include <cstdint>

#include "kernels/common/mma.cuh"

namespace osdn::kernels {

#ifdef OSDN_CUDA_EMULATOR
using emulator::MatrixDescriptor;
#else
using MatrixDescriptor = std::uint64_t;
#endif

/// Describes B that starts at `at`. `leading` is the distance in bytes between
/// 64-column groups of a B stored [k][n] (unused for B stored [n][k]); eight
/// rows always lie 1024 bytes apart.
__device__ __forceinline__ MatrixDescriptor describe(const Bf16* at,
                                                     int leading = 16) {
#ifdef OSDN_CUDA_EMULATOR
  return {reinterpret_cast<const unsigned char*>(at), leading};
#else
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
  return static_cast<std::uint64_t>((address & 0x3ffff) >> 4) |
         static_cast<std::uint64_t>(leading >> 4) << 16 |
         static_cast<std::uint64_t>(1024 >> 4) << 32 | std::uint64_t{1} << 62;
#endif
}

/// B [16, 64] of tokens (or rows) 0..63 at k0.. of a tile stored [n][k].
template <int kCols>
__device__ __forceinline__ MatrixDescriptor rows_of(Tile<kCols> tile, int k0) {
  return describe(tile.data + k0 / 64 * 64 * 64 + k0 % 64);
}
/// B [16, n] of rows k0.. and columns from n0, a multiple of 64, of a tile
/// stored [k][n].
template <int kCols>
__device__ __forceinline__ MatrixDescriptor columns_of(Tile<kCols> tile, int k0,
                                                       int n0 = 0) {
  return describe(tile.data + n0 * 64 + k0 * 64, 64 * 64 * 2);
}

/// Before the first wgmma after registers of D or A were written.
__device__ __forceinline__ void wgmma_fence() {
#ifndef OSDN_CUDA_EMULATOR
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void wgmma_commit() {
#ifndef OSDN_CUDA_EMULATOR
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
template <int kPending>
__device__ __forceinline__ void wgmma_wait() {
#ifndef OSDN_CUDA_EMULATOR
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
#endif
}
/// Keeps the compiler from moving uses of `d` across this point.
template <int kTiles>
__device__ __forceinline__ void pin(float (&d)[kTiles][4]) {
#ifndef OSDN_CUDA_EMULATOR
#pragma unroll
  for (int n = 0; n < kTiles; ++n) {
    asm volatile(""
                 : "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]),
                   "+f"(d[n][3])::"memory");
  }
#endif
}
/// Makes ordinary and cp.async writes to shared memory visible to wgmma; a
/// barrier has to follow.
__device__ __forceinline__ void fence_shared_for_wgmma() {
#ifndef OSDN_CUDA_EMULATOR
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

/// D [64, 64] = A B (+ D) by the four warps of a warpgroup: each holds 16 rows
/// of D and of A [64, 16] in the layout of mma.cuh; B [16, 64] lies in shared
/// memory. Asynchronous: neither D nor A may be touched before wgmma_wait.
template <bool kTransposed, bool kAccumulate>
__device__ __forceinline__ void wgmma(float (&d)[8][4],
                                      const std::uint32_t (&a)[4],
                                      MatrixDescriptor b) {
#ifdef OSDN_CUDA_EMULATOR
  emulator::wgmma<64>(&d[0][0], a, b, kTransposed, kAccumulate);
#else
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, p, 1, 1, %38;\n}\n"
      : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]),
        "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]),
        "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
        "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]),
        "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]),
        "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
        "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]),
        "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),
        "r"(kAccumulate ? 1 : 0), "n"(kTransposed ? 1 : 0));
#endif
}

/// The same with B [16, 128].
template <bool kTransposed, bool kAccumulate>
__device__ __forceinline__ void wgmma(float (&d)[16][4],
                                      const std::uint32_t (&a)[4],
                                      MatrixDescriptor b) {
#ifdef OSDN_CUDA_EMULATOR
  emulator::wgmma<128>(&d[0][0], a, b, kTransposed, kAccumulate);
#else
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63"
      "}, {%64, %65, %66, %67}, %68, p, 1, 1, %70;\n}\n"
      : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]),
        "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]), "+f"(d[1][3]),
        "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]),
        "+f"(d[3][0]), "+f"(d[3][1]), "+f"(d[3][2]), "+f"(d[3][3]),
        "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]),
        "+f"(d[5][0]), "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]),
        "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]),
        "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]),
        "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]), "+f"(d[8][3]),
        "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]),
        "+f"(d[10][0]), "+f"(d[10][1]), "+f"(d[10][2]), "+f"(d[10][3]),
        "+f"(d[11][0]), "+f"(d[11][1]), "+f"(d[11][2]), "+f"(d[11][3]),
        "+f"(d[12][0]), "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]),
        "+f"(d[13][0]), "+f"(d[13][1]), "+f"(d[13][2]), "+f"(d[13][3]),
        "+f"(d[14][0]), "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]),
        "+f"(d[15][0]), "+f"(d[15][1]), "+f"(d[15][2]), "+f"(d[15][3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),
        "r"(kAccumulate ? 1 : 0), "n"(kTransposed ? 1 : 0));
#endif
}

}  // namespace osdn::kernels
