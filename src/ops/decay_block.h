#pragma once
// Products with a per-channel decay between the rows of one block, and the
// exponential that the decays come from. With alpha_m = exp(g_m) and
// F_ij = alpha_{j+1} ... alpha_i per channel (1 for i = j):
//
//   block_pairs  m_ij  = sum_c x_ic F_ijc y_jc          j <= i
//   block_left   out_i += sum_{j<=i} m_ij F_ij y_j      j ascending
//   block_right  out_j += sum_{i>=j} m_ij F_ij x_i      i ascending
//
// F is built by stepping: a row is multiplied by one more alpha at each step,
// which is what the recurrence does, so no exponent is ever positive and one
// exponential per gate value is enough. With alpha = 1 each sum has the bits
// that gemm_add gives, term by term in the same order.

#include <cstdint>

namespace osdn::ops {

inline constexpr std::int64_t kSubBlock = 16;

template <typename T>
struct DecayBlock {
  std::int64_t rows;      ///< 1 to kSubBlock
  std::int64_t channels;  ///< K
  std::int64_t width;     ///< padded K: stride of x, y, alpha and out rows
  std::int64_t stride;    ///< of rows of m and of y_transposed
  const T* alpha;         ///< [rows][width]
};

/// y_transposed [channels][kSubBlock] starts as zeros and ends as each y_j
/// decayed to the block's last row. m1, m2 get kSubBlock columns, zeros right
/// of the diagonal.
template <typename T>
void block_pairs(const DecayBlock<T>& block, const T* x1, const T* x2,
                 const T* y, T* y_transposed, T* m1, T* m2);

/// y_at_end [rows][width] becomes each y_j decayed to the block's last row.
template <typename T>
void block_left(const DecayBlock<T>& block, const T* m1, const T* m2,
                const T* y, T* y_at_end, T* out1, T* out2);

/// x_at_start [rows][width] becomes each x_i decayed from before the block's
/// first row.
template <typename T>
void block_right(const DecayBlock<T>& block, const T* m, const T* x,
                 T* x_at_start, T* out);

/// out = exp(x), in place if asked; exactly 1 for 0, 0 far below.
template <typename T>
void exp_all(std::int64_t n, const T* x, T* out);

}  // namespace osdn::ops
