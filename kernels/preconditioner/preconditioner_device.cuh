#pragma once
// What the two directions of the preconditioner share beside its step.
//
// A warp walks one chain; a lane owns Width consecutive channels. A block is 16
// tokens: what is prepared per token is prepared for 16 at once, two lanes a
// token. Its rows lie in shared memory; each lane writes and reads its own
// channels only, so the rows need no barrier.

#include <cstdint>

#include "kernels/common/reduce.cuh"
#include "kernels/common/vector_io.cuh"
#include "kernels/preconditioner/preconditioner_step.cuh"

namespace osdn::kernels::precond {

inline constexpr int kBlock = static_cast<int>(kPreconditionerInterval);
/// One warp a scheduler: with more, the chains wait for issue slots. 128
/// chains then take 32 multiprocessors and leave the others to other work.
inline constexpr int kMaxWarps = 4;
/// What one CTA of sm_90 can be given, less room for the system.
inline constexpr std::int64_t kSharedBudget = 224 * 1024;

/// One (document, value head).
struct Chain {
  std::int64_t document, value_head, begin, length;
};

__device__ __forceinline__ Chain chain_at(std::int64_t index,
                                          const PreconditionerShape& shape,
                                          const std::int64_t* cu_seqlens) {
  Chain chain;
  chain.document = index / shape.value_heads;
  chain.value_head = index % shape.value_heads;
  chain.begin = cu_seqlens[chain.document];
  chain.length = cu_seqlens[chain.document + 1] - chain.begin;
  return chain;
}

/// True in every lane when it is in any. The result of a vote is known to be
/// uniform, so a loop around it needs no test for divergence at each shuffle.
__device__ __forceinline__ bool uniform(bool condition) {
  return __any_sync(kFullWarp, condition) != 0;
}

/// Rows of a block that a chain has.
__device__ __forceinline__ int block_rows(const Chain& chain,
                                          std::int64_t first) {
  const std::int64_t left = chain.length - first;
  return static_cast<int>(left < 0 ? 0 : left < kBlock ? left : kBlock);
}

/// First row of a document in d_checkpoint: the floor leaves each document
/// ceil(length / 16) rows of its own.
__device__ __forceinline__ std::int64_t checkpoint_row(const Chain& chain) {
  return chain.begin / kBlock + chain.document;
}

template <int Bytes>
__device__ __forceinline__ void copy_async(void* to, const void* from,
                                           bool valid) {
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int size = valid ? Bytes : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address),
               "l"(from), "n"(Bytes), "r"(size)
               : "memory");
}
__device__ __forceinline__ void copy_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
__device__ __forceinline__ void copy_wait_all() {
  asm volatile("cp.async.wait_group 0;" ::: "memory");
}

/// Starts the copy of a block's rows of this lane's channels into `slots` (row
/// stride 32 * Width elements). Channels past key_width and rows past `rows`
/// become zero: a row of zeros is a step that changes nothing, since its
/// update is zero and d lies inside the box after any earlier row.
template <typename T, int Width, bool Packed>
__device__ __forceinline__ void stage_rows(T* slots, const T* from,
                                           std::int64_t row_stride, int rows,
                                           int channel, int key_width) {
  constexpr int kBytes = Width * static_cast<int>(sizeof(T));
  constexpr int kPiece = kBytes < 16 ? kBytes : 16;
  if constexpr (Packed) {
    // Lanes without channels copy nothing, from an address that exists.
    if (channel >= key_width) rows = 0;
    const char* source = reinterpret_cast<const char*>(from + channel);
    const std::int64_t step = row_stride * static_cast<std::int64_t>(sizeof(T));
#pragma unroll
    for (int row = 0; row < kBlock; ++row) {
#pragma unroll
      for (int piece = 0; piece < kBytes / kPiece; ++piece) {
        copy_async<kPiece>(
            reinterpret_cast<char*>(slots + row * 32 * Width) + piece * kPiece,
            source + piece * kPiece, row < rows);
      }
      source += step;
    }
  } else {
    for (int row = 0; row < kBlock; ++row) {
#pragma unroll
      for (int i = 0; i < Width; ++i) {
        slots[row * 32 * Width + i] = row < rows && channel + i < key_width
                                          ? from[row * row_stride + channel + i]
                                          : from_float<T>(0.0f);
      }
    }
  }
}

/// Load and store of a lane's channels of an fp32 or T row in global memory.
template <int Width, bool Packed, typename T>
__device__ __forceinline__ void load_channels(const T* row, int channel,
                                              int key_width,
                                              float (&to)[Width]) {
  if constexpr (Packed) {
    if (channel < key_width) {
      load_floats<Width>(row + channel, to);
    } else {
#pragma unroll
      for (int i = 0; i < Width; ++i) to[i] = 0.0f;
    }
  } else {
#pragma unroll
    for (int i = 0; i < Width; ++i) {
      to[i] = channel + i < key_width ? to_float(row[channel + i]) : 0.0f;
    }
  }
}
template <int Width, bool Packed, typename T>
__device__ __forceinline__ void store_channels(T* row, int channel,
                                               int key_width,
                                               const float (&from)[Width]) {
  if constexpr (Packed) {
    if (channel < key_width) store_floats<Width>(row + channel, from);
  } else {
#pragma unroll
    for (int i = 0; i < Width; ++i) {
      if (channel + i < key_width) row[channel + i] = from_float<T>(from[i]);
    }
  }
}

/// One level of block_token_sums: half of the tokens go to the other half of
/// the lanes. A recursion, so that x stays in registers.
template <int Tokens>
__device__ __forceinline__ void halve_tokens(float (&x)[kBlock], int lane) {
  constexpr int kKept = Tokens / 2;
  const bool upper = (lane & Tokens) != 0;
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    const float keep = upper ? x[i + kKept] : x[i];
    const float give = upper ? x[i] : x[i + kKept];
    x[i] = __fadd_rn(keep, __shfl_xor_sync(kFullWarp, give, Tokens));
  }
  if constexpr (kKept > 1) halve_tokens<kKept>(x, lane);
}

/// Sums 16 values over the warp, one value a token; lane l gets the sum of
/// token l / 2. The tree is the same for every token. 16 shuffles, not 80.
__device__ __forceinline__ float block_token_sums(float (&x)[kBlock],
                                                  int lane) {
  halve_tokens<kBlock>(x, lane);
  return __fadd_rn(x[0], __shfl_xor_sync(kFullWarp, x[0], 1));
}

/// sum_i x_i y_i over a lane's channels, in a short tree.
template <int Width>
__device__ __forceinline__ float lane_dot(const float (&x)[Width],
                                          const float (&y)[Width]) {
  constexpr int kStrands = Width < 4 ? Width : 4;
  float strand[kStrands];
#pragma unroll
  for (int i = 0; i < kStrands; ++i) strand[i] = x[i] * y[i];
#pragma unroll
  for (int i = kStrands; i < Width; ++i) {
    strand[i % kStrands] = fmaf(x[i], y[i], strand[i % kStrands]);
  }
  if constexpr (kStrands == 2) return strand[0] + strand[1];
  return (strand[0] + strand[1]) +
         (strand[kStrands - 2] + strand[kStrands - 1]);
}

/// Reason why a shape is refused by both directions, or null.
inline const char* shape_unsupported(const PreconditionerShape& shape) {
  if (shape.tokens < 0 || shape.documents < 0) {
    return "tokens and documents must not be negative";
  }
  if (shape.key_heads < 1 || shape.value_heads < 1 ||
      shape.value_heads % shape.key_heads != 0) {
    return "value_heads must be a positive multiple of key_heads";
  }
  if (shape.key_width < 1 || shape.key_width > 256) {
    return "key_width must be 1 to 256";
  }
  if (shape.k_row_stride != 0 &&
      shape.k_row_stride < shape.key_heads * shape.key_width) {
    return "k_row_stride must be 0 or at least key_heads * key_width";
  }
  if (!(shape.box_lo <= shape.box_hi)) {
    return "box_lo must not be above box_hi";
  }
  return nullptr;
}

inline std::int64_t k_row_stride(const PreconditionerShape& shape) {
  return shape.k_row_stride != 0 ? shape.k_row_stride
                                 : shape.key_heads * shape.key_width;
}

inline int lane_width(std::int64_t key_width) {
  return key_width <= 64 ? 2 : key_width <= 128 ? 4 : 8;
}

/// Calls run(integral_constant<Width>, bool_constant<Packed>) with the
/// narrowest lane that holds K; rows that cannot be read in packs use the
/// widest, element by element.
template <typename Run>
void with_lane_width(std::int64_t key_width, bool packs_fit, Run&& run) {
  const int width = lane_width(key_width);
  if (!packs_fit || key_width % width != 0) {
    run(std::integral_constant<int, 8>{}, std::false_type{});
  } else if (width == 2) {
    run(std::integral_constant<int, 2>{}, std::true_type{});
  } else if (width == 4) {
    run(std::integral_constant<int, 4>{}, std::true_type{});
  } else {
    run(std::integral_constant<int, 8>{}, std::true_type{});
  }
}

/// Bytes of a lane's pack that pointers and strides must be multiples of.
inline std::uintptr_t lane_pack_bytes(std::int64_t key_width,
                                      std::int64_t element_bytes) {
  const std::int64_t bytes = lane_width(key_width) * element_bytes;
  return static_cast<std::uintptr_t>(bytes < 16 ? bytes : 16);
}

/// Warps that fit a CTA when each needs `per_warp` bytes of shared memory.
inline int warps_per_block(std::int64_t per_warp) {
  const std::int64_t fit = kSharedBudget / per_warp;
  return static_cast<int>(fit < kMaxWarps ? fit : kMaxWarps);
}

}  // namespace osdn::kernels::precond
