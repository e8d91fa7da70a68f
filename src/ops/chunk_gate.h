#pragma once
// Products that carry the gate's decay inside one chunk (math.md 3):
//
//   pair_products  M_ij  = sum_k x_ik exp(G_ik - G_jk) y_jk      j <= i
//   left_apply     out_i += sum_{j<=i} M_ij exp(G_i - G_j) y_j
//   right_apply    out_j += sum_{i>=j} M_ij exp(G_i - G_j) x_i
//
// exp(G_i - G_j) is the product of alpha = exp(g) over the tokens between, so
// nothing overflows and a token with g = -1000 takes no digits from the mild
// ones around it. The matrices are walked in blocks of 16 rows, below the
// diagonal as matrix products. With a per-channel gate the diagonal blocks go
// through decay_block.h, and the factor of an earlier row is split at the
// block's edge; that edge lies between the two rows, so that no later token
// enters an earlier output.
//
// All three kinds add the same terms in the same order: a gate of zeros gives
// the bits that no gate gives.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "chunks.h"
#include "decay_block.h"
#include "small_gemm.h"

namespace osdn::ops {

enum class GateKind { kNone, kHead, kChannel };

/// Buffers have kChunk rows of `width` = padded K elements, pads zero;
/// matrices M are kChunk x kChunk with zeros above the diagonal.
template <typename T>
class ChunkGate {
 public:
  ChunkGate(GateKind kind, std::int64_t k_channels)
      : kind_(kind), k_(k_channels), width_(padded<T>(k_channels)) {
    const auto rows = static_cast<std::size_t>(kChunk);
    const auto width = static_cast<std::size_t>(width_);
    const auto block = static_cast<std::size_t>(kSubBlock) * width;
    transposed_.resize(width * rows);
    sum1_.resize(block);
    sum2_.resize(block);
    if (kind_ == GateKind::kHead) {
      from_start_.resize(rows);
      to_end_.resize(rows);
      pair_.resize(rows * rows);
      decayed1_.resize(rows * rows);
      decayed2_.resize(rows * rows);
    } else if (kind_ == GateKind::kChannel) {
      alpha_.resize(rows * width);
      within_.resize(rows * width);
      after_.resize(rows * width);
      before_block_.resize(kBlocks * width);
      after_block_.resize(kBlocks * width);
      scaled_.resize(rows * width);
    }
  }

  /// Reads the gate of `rows` tokens; g_stride elements between tokens.
  void load(const T* g, std::int64_t g_stride, std::int64_t rows) {
    rows_ = rows;
    if (kind_ == GateKind::kHead) load_head(g, g_stride);
    if (kind_ == GateKind::kChannel) load_channel(g, g_stride);
  }

  /// out_i = exp(G_i) x_i: what the chunk's start contributes to row i.
  void from_start(const T* x, T* out) const {
    scale_rows(x, out, from_start_, within_, before_block_);
  }

  /// out_i = exp(G_C - G_i) x_i: what row i leaves at the chunk's end.
  void to_end(const T* x, T* out) const {
    scale_rows(x, out, to_end_, after_, after_block_);
  }

  /// exp(G_C) of one channel: the decay of the state over the chunk.
  T over_chunk(std::int64_t c) const {
    const std::int64_t last = rows_ - 1;
    if (kind_ == GateKind::kNone) return T(1);
    if (kind_ == GateKind::kHead) return from_start_[at(last)];
    return within_[at(last * width_ + c)] *
           before_block_[at(last / kSubBlock * width_ + c)];
  }

  /// m1 from x1 and y, m2 from x2 and y.
  void pair_products(const T* x1, const T* x2, const T* y, T* m1, T* m2) {
    std::fill(m1, m1 + kChunk * kChunk, T(0));
    std::fill(m2, m2 + kChunk * kChunk, T(0));
    std::fill(transposed_.begin(), transposed_.end(), T(0));
    if (kind_ != GateKind::kChannel) transpose(y);
    for (std::int64_t first = 0; first < rows_; first += kSubBlock) {
      const std::int64_t last = std::min(first + kSubBlock, rows_);
      if (kind_ == GateKind::kChannel) {
        // transposed_ holds the earlier y, decayed to just before the block.
        scale_block(x1, first, last, within_, sum1_.data());
        scale_block(x2, first, last, within_, sum2_.data());
        multiply_pairs(sum1_.data(), first, last, first, m1);
        multiply_pairs(sum2_.data(), first, last, first, m2);
        block_pairs(block(first, last), x1 + first * width_,
                    x2 + first * width_, y + first * width_,
                    transposed_.data() + first, m1 + first * kChunk + first,
                    m2 + first * kChunk + first);
        for (std::int64_t c = 0; c < k_; ++c) {
          const T total = within_[at((last - 1) * width_ + c)];
          T* earlier = transposed_.data() + c * kChunk;
          for (std::int64_t j = 0; j < first; ++j) earlier[j] *= total;
        }
      } else {
        multiply_pairs(x1 + first * width_, first, last, last, m1);
        multiply_pairs(x2 + first * width_, first, last, last, m2);
      }
    }
    if (kind_ == GateKind::kChannel) return;
    for (T* m : {m1, m2}) {
      for (std::int64_t i = 0; i < rows_; ++i) {
        std::fill(m + i * kChunk + i + 1, m + (i + 1) * kChunk, T(0));
      }
      if (kind_ == GateKind::kHead) decay_pairs(m, m);
    }
  }

  /// out1 from m1 and y, out2 from m2 and y.
  void left_apply(const T* m1, const T* m2, const T* y, T* out1, T* out2) {
    const T* weight1 = with_decay(m1, decayed1_);
    const T* weight2 = with_decay(m2, decayed2_);
    for (std::int64_t first = 0; first < rows_; first += kSubBlock) {
      const std::int64_t last = std::min(first + kSubBlock, rows_);
      if (kind_ == GateKind::kChannel) {
        // scaled_ holds the earlier y, decayed to just before the block.
        multiply_left(weight1, first, last, first, scaled_.data(), sum1_);
        multiply_left(weight2, first, last, first, scaled_.data(), sum2_);
        scale_in_place(sum1_.data(), first, last, within_);
        scale_in_place(sum2_.data(), first, last, within_);
        block_left(block(first, last), weight1 + first * kChunk + first,
                   weight2 + first * kChunk + first, y + first * width_,
                   scaled_.data() + first * width_, sum1_.data(), sum2_.data());
        decay_scaled(0, first, last - 1);
      } else {
        multiply_left(weight1, first, last, last, y, sum1_);
        multiply_left(weight2, first, last, last, y, sum2_);
      }
      add(sum1_.data(), last - first, out1 + first * width_);
      add(sum2_.data(), last - first, out2 + first * width_);
    }
  }

  void right_apply(const T* m, const T* x, T* out) {
    const T* weight = with_decay(m, decayed1_);
    const bool channel = kind_ == GateKind::kChannel;
    for (std::int64_t first = (rows_ - 1) / kSubBlock * kSubBlock; first >= 0;
         first -= kSubBlock) {
      const std::int64_t last = std::min(first + kSubBlock, rows_);
      // scaled_ holds the later x, decayed from just after the block.
      const T* later = channel ? scaled_.data() : x;
      std::fill(sum2_.begin(), sum2_.end(), T(0));
      gemm_add<T>(last - first, width_, rows_ - last,
                  {weight + last * kChunk + first, 1, kChunk},
                  later + last * width_, width_, sum2_.data(), width_);
      std::fill(sum1_.begin(), sum1_.end(), T(0));
      if (channel) {
        scale_in_place(sum2_.data(), first, last, after_);
        block_right(block(first, last), weight + first * kChunk + first,
                    x + first * width_, scaled_.data() + first * width_,
                    sum1_.data());
        decay_scaled(last, rows_, last - 1);
      } else {
        gemm_add<T>(last - first, width_, last - first,
                    {weight + first * kChunk + first, 1, kChunk},
                    x + first * width_, width_, sum1_.data(), width_);
      }
      add(sum2_.data(), last - first, sum1_.data());
      add(sum1_.data(), last - first, out + first * width_);
    }
  }

 private:
  static constexpr std::int64_t kBlocks = kChunk / kSubBlock;
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

  // In double: the matrix of a per-head gate costs little.
  void load_head(const T* g, std::int64_t g_stride) {
    std::array<double, kChunk> pair{};  // row i of exp(G_i - G_j)
    double start = 1;
    for (std::int64_t i = 0; i < rows_; ++i) {
      const double alpha = std::exp(static_cast<double>(g[i * g_stride]));
      start *= alpha;
      from_start_[at(i)] = static_cast<T>(start);
      for (std::int64_t j = 0; j < i; ++j) pair[at(j)] *= alpha;
      pair[at(i)] = 1;
      for (std::int64_t j = 0; j <= i; ++j) {
        pair_[at(i * kChunk + j)] = static_cast<T>(pair[at(j)]);
      }
    }
    for (std::int64_t i = 0; i < rows_; ++i) {
      to_end_[at(i)] = pair_[at((rows_ - 1) * kChunk + i)];
    }
  }

  void load_channel(const T* g, std::int64_t g_stride) {
    for (std::int64_t i = 0; i < rows_; ++i) {
      exp_all(k_, g + i * g_stride, alpha_.data() + i * width_);
    }
    for (std::int64_t first = 0; first < rows_; first += kSubBlock) {
      const std::int64_t last = std::min(first + kSubBlock, rows_);
      const std::int64_t b = first / kSubBlock;
      multiply_row(first, first, nullptr, within_);
      for (std::int64_t i = first + 1; i < last; ++i) {
        multiply_row(i, i, within_.data() + (i - 1) * width_, within_);
      }
      std::fill_n(after_.begin() + (last - 1) * width_, width_, T(1));
      for (std::int64_t i = last - 2; i >= first; --i) {
        multiply_row(i, i + 1, after_.data() + (i + 1) * width_, after_);
      }
      for (std::int64_t c = 0; c < k_; ++c) {
        before_block_[at(b * width_ + c)] =
            b == 0 ? T(1)
                   : before_block_[at((b - 1) * width_ + c)] *
                         within_[at((first - 1) * width_ + c)];
      }
    }
    const std::int64_t last_block = (rows_ - 1) / kSubBlock;
    for (std::int64_t b = last_block; b >= 0; --b) {
      for (std::int64_t c = 0; c < k_; ++c) {
        const std::int64_t end = std::min((b + 2) * kSubBlock, rows_) - 1;
        after_block_[at(b * width_ + c)] =
            b == last_block ? T(1)
                            : after_block_[at((b + 1) * width_ + c)] *
                                  within_[at(end * width_ + c)];
      }
    }
  }

  /// to_i = alpha_from, times `other` where given.
  void multiply_row(std::int64_t i, std::int64_t from, const T* other,
                    std::vector<T>& to) const {
    for (std::int64_t c = 0; c < k_; ++c) {
      const T alpha = alpha_[at(from * width_ + c)];
      to[at(i * width_ + c)] = other ? other[c] * alpha : alpha;
    }
  }

  void scale_rows(const T* x, T* out, const std::vector<T>& of_row,
                  const std::vector<T>& in_block,
                  const std::vector<T>& of_block) const {
    for (std::int64_t i = 0; i < rows_; ++i) {
      const T* from = x + i * width_;
      T* to = out + i * width_;
      if (kind_ == GateKind::kNone) {
        std::copy(from, from + width_, to);
      } else if (kind_ == GateKind::kHead) {
        const T factor = of_row[at(i)];
        for (std::int64_t c = 0; c < width_; ++c) to[c] = from[c] * factor;
      } else {
        const T* inner = in_block.data() + i * width_;
        const T* outer = of_block.data() + i / kSubBlock * width_;
        for (std::int64_t c = 0; c < width_; ++c) {
          to[c] = from[c] * (inner[c] * outer[c]);
        }
      }
    }
  }

  DecayBlock<T> block(std::int64_t first, std::int64_t last) const {
    return {last - first, k_, width_, kChunk, alpha_.data() + first * width_};
  }

  /// transposed_[c][i] = y[i][c].
  void transpose(const T* y) {
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t c = 0; c < k_; ++c) {
        transposed_[at(c * kChunk + i)] = y[i * width_ + c];
      }
    }
  }

  /// Rows [first, last) of m, columns [0, columns), from rows of x.
  void multiply_pairs(const T* x, std::int64_t first, std::int64_t last,
                      std::int64_t columns, T* m) const {
    gemm_add<T>(last - first, padded<T>(columns), k_, {x, width_, 1},
                transposed_.data(), kChunk, m + first * kChunk, kChunk);
  }

  /// sum = rows [first, last) of m, columns [0, columns), times y.
  void multiply_left(const T* m, std::int64_t first, std::int64_t last,
                     std::int64_t columns, const T* y,
                     std::vector<T>& sum) const {
    std::fill(sum.begin(), sum.end(), T(0));
    gemm_add<T>(last - first, width_, columns, {m + first * kChunk, kChunk, 1},
                y, width_, sum.data(), width_);
  }

  void decay_pairs(const T* m, T* out) const {
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        out[i * kChunk + j] = m[i * kChunk + j] * pair_[at(i * kChunk + j)];
      }
    }
  }

  /// M times the pair decay of a per-head gate; M itself otherwise.
  const T* with_decay(const T* m, std::vector<T>& buffer) const {
    if (kind_ != GateKind::kHead) return m;
    decay_pairs(m, buffer.data());
    return buffer.data();
  }

  /// out_{i-first} = x_i factor_i for i in [first, last).
  void scale_block(const T* x, std::int64_t first, std::int64_t last,
                   const std::vector<T>& factor, T* out) const {
    const T* from = x + first * width_;
    const T* by = factor.data() + first * width_;
    for (std::int64_t e = 0; e < (last - first) * width_; ++e) {
      out[e] = from[e] * by[e];
    }
  }
  void scale_in_place(T* x, std::int64_t first, std::int64_t last,
                      const std::vector<T>& factor) const {
    const T* by = factor.data() + first * width_;
    for (std::int64_t e = 0; e < (last - first) * width_; ++e) x[e] *= by[e];
  }
  /// Takes rows [from, to) of scaled_ past the block that ends at `end`.
  void decay_scaled(std::int64_t from, std::int64_t to, std::int64_t end) {
    const T* total = within_.data() + end * width_;
    for (std::int64_t j = from; j < to; ++j) {
      T* row = scaled_.data() + j * width_;
      for (std::int64_t c = 0; c < width_; ++c) row[c] *= total[c];
    }
  }
  void add(const T* x, std::int64_t rows, T* out) const {
    for (std::int64_t e = 0; e < rows * width_; ++e) out[e] += x[e];
  }

  GateKind kind_;
  std::int64_t k_;
  std::int64_t width_;
  std::int64_t rows_ = 0;
  std::vector<T> transposed_;                  // [width][kChunk]
  std::vector<T> sum1_, sum2_;                 // [kSubBlock][width]
  std::vector<T> from_start_, to_end_, pair_;  // per head: [kChunk], matrix
  std::vector<T> decayed1_, decayed2_;         // M with the pair decay
  // Per channel: exp(g), its product from the block's first row to row i,
  // and over the rows of the block after row i; over the blocks before and
  // after a block.
  std::vector<T> alpha_, within_, after_;      // [kChunk][width]
  std::vector<T> before_block_, after_block_;  // [kBlocks][width]
  std::vector<T> scaled_;                      // [kChunk][width]
};

}  // namespace osdn::ops
