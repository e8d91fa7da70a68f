#pragma once
// Matrix instructions, swizzled tiles and asynchronous copies, one wrapper an
// instruction.
//
// Fragment layouts of m16n8k16 (lane = 4 g + t):
//   A [16,16]: a0 (g, 2t..2t+1), a1 (g+8, same), a2 (g, 2t+8..), a3 (g+8, ..)
//   B [16,8]:  b0 (k = 2t..2t+1, n = g), b1 (k = 2t+8.., n = g)
//   C [16,8]:  c0, c1 (g, 2t..2t+1), c2, c3 (g+8, 2t..2t+1)
// so two neighbouring C tiles, packed to bf16, are one A fragment.

#include <cstdint>

#include "kernels/common/device.cuh"

namespace osdn::kernels {

/// C += A B, bf16 operands, fp32 accumulators.
__device__ __forceinline__ void mma_bf16(float (&c)[4],
                                         const std::uint32_t (&a)[4],
                                         std::uint32_t b0, std::uint32_t b1) {
#ifdef OSDN_CUDA_EMULATOR
  emulator::mma_bf16(c, a, b0, b1);
#else
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/// C += A B with m16n8k8 tf32. A [16,8]: a0 (g, t), a1 (g+8, t), a2 (g, t+4),
/// a3 (g+8, t+4); B [8,8]: b0 (k = t, n = g), b1 (k = t+4, n = g).
__device__ __forceinline__ void mma_tf32(float (&c)[4], const float (&a)[4],
                                         float b0, float b1) {
#ifdef OSDN_CUDA_EMULATOR
  emulator::mma_tf32(c, a, b0, b1);
#else
  std::uint32_t ua[4], ub[2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(ua[i]) : "f"(a[i]));
  }
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(ub[0]) : "f"(b0));
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(ub[1]) : "f"(b1));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(ua[0]), "r"(ua[1]), "r"(ua[2]), "r"(ua[3]), "r"(ub[0]), "r"(ub[1]));
#endif
}

/// Four 8x8 matrices; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrix(std::uint32_t (&r)[4],
                                            const Bf16* row) {
#ifdef OSDN_CUDA_EMULATOR
  emulator::load_matrix(r, row, false);
#else
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
#endif
}
__device__ __forceinline__ void load_matrix_transposed(std::uint32_t (&r)[4],
                                                       const Bf16* row) {
#ifdef OSDN_CUDA_EMULATOR
  emulator::load_matrix(r, row, true);
#else
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile(
      "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
      : "r"(at)
      : "memory");
#endif
}
__device__ __forceinline__ void store_matrix(Bf16* row,
                                             const std::uint32_t (&r)[4]) {
#ifdef OSDN_CUDA_EMULATOR
  emulator::store_matrix(row, r, false);
#else
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at),
      "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
      : "memory");
#endif
}
__device__ __forceinline__ void store_matrix_transposed(
    Bf16* row, const std::uint32_t (&r)[4]) {
#ifdef OSDN_CUDA_EMULATOR
  emulator::store_matrix(row, r, true);
#else
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::
          "r"(at),
      "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3])
      : "memory");
#endif
}

/// Sixteen bytes to shared memory, zeros where not `valid` (the source is
/// then not read).
__device__ __forceinline__ void copy_async(void* to, const void* from,
                                           bool valid = true) {
#ifdef OSDN_CUDA_EMULATOR
  emulator::copy16(to, from, valid);
#else
  const auto at = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at),
               "l"(from), "r"(bytes)
               : "memory");
#endif
}
__device__ __forceinline__ void copy_async_commit() {
#ifndef OSDN_CUDA_EMULATOR
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Waits until at most kPending of this thread's newest groups are under way.
template <int kPending>
__device__ __forceinline__ void copy_async_wait() {
#ifndef OSDN_CUDA_EMULATOR
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

/// A bf16 tile in groups of 64 columns, each group row-major with its eight
/// 16-byte units permuted by the row's low three bits: the hardware's 128-byte
/// swizzle. Eight rows at one column touch all banks, so copies, ldmatrix and
/// stmatrix are free of conflicts, and wgmma reads the same tile.
template <int kCols, int kRows = 64>
struct Tile {
  static_assert(kCols % 64 == 0, "columns come in groups of 64");

  Bf16* data;

  /// Address of the unit that holds column `col` (a multiple of 8) of `row`.
  __device__ __forceinline__ Bf16* unit(int row, int col) const {
    return data + offset(row, col);
  }
  static __device__ __forceinline__ int offset(int row, int col) {
    return (col >> 6) * (kRows * 64) + row * 64 +
           (((col >> 3 & 7) ^ (row & 7)) << 3);
  }
};

/// A operand [16,16] at (row0, col0) of a tile stored [row][k].
template <int kCols, int kRows>
__device__ __forceinline__ void load_a(std::uint32_t (&a)[4],
                                       Tile<kCols, kRows> tile, int row0,
                                       int col0, int lane) {
  load_matrix(a, tile.unit(row0 + (lane & 15), col0 + (lane >> 4) * 8));
}
/// A operand [16,16] whose rows are columns row0.. and whose k are rows k0..
/// of a tile stored [k][row].
template <int kCols, int kRows>
__device__ __forceinline__ void load_a_transposed(std::uint32_t (&a)[4],
                                                  Tile<kCols, kRows> tile,
                                                  int k0, int row0, int lane) {
  load_matrix_transposed(a, tile.unit(k0 + (lane & 7) + (lane >> 4) * 8,
                                      row0 + ((lane >> 3) & 1) * 8));
}
/// Two B operands [16,8] for n0.. and n0+8.. of a tile stored [n][k]:
/// b[0], b[1] are the first, b[2], b[3] the second.
template <int kCols, int kRows>
__device__ __forceinline__ void load_b(std::uint32_t (&b)[4],
                                       Tile<kCols, kRows> tile, int n0, int k0,
                                       int lane) {
  load_matrix(b, tile.unit(n0 + (lane & 7) + (lane >> 4) * 8,
                           k0 + ((lane >> 3) & 1) * 8));
}
/// The same of a tile stored [k][n].
template <int kCols, int kRows>
__device__ __forceinline__ void load_b_transposed(std::uint32_t (&b)[4],
                                                  Tile<kCols, kRows> tile,
                                                  int k0, int n0, int lane) {
  load_matrix_transposed(b, tile.unit(k0 + (lane & 15), n0 + (lane >> 4) * 8));
}

}  // namespace osdn::kernels
