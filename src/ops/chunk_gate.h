#pragma once
// Products that carry the gate's decay inside one chunk (math.md 3):
//
//   pair_products  M_ij  = sum_k x_ik exp(G_ik - G_jk) y_jk      j <= i
//   left_apply     out_i += sum_{j<=i} M_ij exp(G_i - G_j) y_j
//   right_apply    out_j += sum_{i>=j} M_ij exp(G_i - G_j) x_i
//
// G, the running sum of the log decay, is held in double: after a token with
// g = -1000 a float would have lost the digits of the mild ones that follow.
// No exponent is positive: a per-channel gate takes as reference the first row
// of a 16-row block (for right_apply the last), which lies between the two.

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "chunks.h"
#include "small_gemm.h"

namespace osdn::ops {

inline constexpr std::int64_t kSubBlock = 16;

enum class GateKind { kNone, kHead, kChannel };

/// Buffers have kChunk rows of `width` = padded K elements, pads zero;
/// matrices M are kChunk x kChunk with zeros above the diagonal.
template <typename T>
class ChunkGate {
 public:
  ChunkGate(GateKind kind, std::int64_t k_channels)
      : kind_(kind), k_(k_channels), width_(padded<T>(k_channels)) {
    const auto rows = static_cast<std::size_t>(kChunk);
    transposed_.resize(static_cast<std::size_t>(width_) * rows);
    if (kind_ == GateKind::kHead) {
      sum_.resize(rows);
      pair_.resize(rows * rows);
      decayed_.resize(rows * rows);
    } else if (kind_ == GateKind::kChannel) {
      sum_.resize(rows * static_cast<std::size_t>(width_));
      factor_.resize(static_cast<std::size_t>(width_));
      scaled_.resize(rows * static_cast<std::size_t>(width_));
      block_.resize(static_cast<std::size_t>(kSubBlock * width_));
    }
  }

  /// Reads the gate of `rows` tokens; g_stride elements between tokens.
  void load(const T* g, std::int64_t g_stride, std::int64_t rows) {
    rows_ = rows;
    if (kind_ == GateKind::kHead) {
      double sum = 0;
      for (std::int64_t i = 0; i < rows; ++i) {
        sum += static_cast<double>(g[i * g_stride]);
        sum_[at(i)] = sum;
      }
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j <= i; ++j) {
          pair_[at(i * kChunk + j)] = exp_of(sum_[at(i)] - sum_[at(j)]);
        }
      }
    } else if (kind_ == GateKind::kChannel) {
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t c = 0; c < k_; ++c) {
          const double before = i == 0 ? 0.0 : sum_[at((i - 1) * width_ + c)];
          sum_[at(i * width_ + c)] =
              before + static_cast<double>(g[i * g_stride + c]);
        }
      }
    }
  }

  /// out_i = exp(G_i) x_i: what the chunk's start contributes to row i.
  void from_start(const T* x, T* out) const {
    scale_rows(x, out,
               [this](std::int64_t i, std::int64_t c) { return sum_at(i, c); });
  }

  /// out_i = exp(G_C - G_i) x_i: what row i leaves at the chunk's end.
  void to_end(const T* x, T* out) const {
    scale_rows(x, out, [this](std::int64_t i, std::int64_t c) {
      return sum_at(rows_ - 1, c) - sum_at(i, c);
    });
  }

  /// exp(G_C) of one channel: the decay of the state over the chunk.
  T over_chunk(std::int64_t c) const {
    return kind_ == GateKind::kNone ? T(1) : exp_of(sum_at(rows_ - 1, c));
  }

  void pair_products(const T* x, const T* y, T* m) {
    std::fill(m, m + kChunk * kChunk, T(0));
    if (kind_ != GateKind::kChannel) {
      transpose(y, rows_);
      gemm_add<T>(rows_, kChunk, k_, {x, width_, 1}, transposed_.data(), kChunk,
                  m, kChunk);
      for (std::int64_t i = 0; i < rows_; ++i) {
        T* row = m + i * kChunk;
        if (kind_ == GateKind::kHead) {
          for (std::int64_t j = 0; j <= i; ++j)
            row[j] *= pair_[at(i * kChunk + j)];
        }
        std::fill(row + i + 1, row + kChunk, T(0));
      }
      return;
    }
    for (std::int64_t first = 0; first < rows_; first += kSubBlock) {
      const std::int64_t last = std::min(first + kSubBlock, rows_);
      if (first > 0) {
        // x_i exp(G_i - G_first) against y_j exp(G_first - G_j).
        scale_block(x, first, last, first, +1, block_.data());
        scale_block(y, 0, first, first, -1, scaled_.data());
        transpose(scaled_.data(), first);
        gemm_add<T>(last - first, padded<T>(first), k_,
                    {block_.data(), width_, 1}, transposed_.data(), kChunk,
                    m + first * kChunk, kChunk);
      }
      for (std::int64_t i = first; i < last; ++i) {
        for (std::int64_t j = first; j <= i; ++j) {
          fill_factor(i, j);
          T sum = 0;
          for (std::int64_t c = 0; c < k_; ++c) {
            sum += x[i * width_ + c] * factor_[at(c)] * y[j * width_ + c];
          }
          m[i * kChunk + j] = sum;
        }
      }
    }
  }

  void left_apply(const T* m, const T* y, T* out) {
    if (kind_ != GateKind::kChannel) {
      gemm_add<T>(rows_, width_, rows_, {with_decay(m), kChunk, 1}, y, width_,
                  out, width_);
      return;
    }
    for (std::int64_t first = 0; first < rows_; first += kSubBlock) {
      const std::int64_t last = std::min(first + kSubBlock, rows_);
      if (first > 0) {
        scale_block(y, 0, first, first, -1, scaled_.data());
        std::fill(block_.begin(), block_.end(), T(0));
        gemm_add<T>(last - first, width_, first,
                    {m + first * kChunk, kChunk, 1}, scaled_.data(), width_,
                    block_.data(), width_);
        add_scaled_block(block_.data(), first, last, first, +1, out);
      }
      for (std::int64_t i = first; i < last; ++i) {
        for (std::int64_t j = first; j <= i; ++j) {
          add_pair(m[i * kChunk + j], i, j, y + j * width_, out + i * width_);
        }
      }
    }
  }

  void right_apply(const T* m, const T* x, T* out) {
    if (kind_ != GateKind::kChannel) {
      gemm_add<T>(rows_, width_, rows_, {with_decay(m), 1, kChunk}, x, width_,
                  out, width_);
      return;
    }
    for (std::int64_t first = 0; first < rows_; first += kSubBlock) {
      const std::int64_t last = std::min(first + kSubBlock, rows_);
      if (last < rows_) {
        scale_block(x, last, rows_, last - 1, +1, scaled_.data());
        std::fill(block_.begin(), block_.end(), T(0));
        gemm_add<T>(last - first, width_, rows_ - last,
                    {m + last * kChunk + first, 1, kChunk}, scaled_.data(),
                    width_, block_.data(), width_);
        add_scaled_block(block_.data(), first, last, last - 1, -1, out);
      }
      for (std::int64_t j = first; j < last; ++j) {
        for (std::int64_t i = j; i < last; ++i) {
          add_pair(m[i * kChunk + j], i, j, x + i * width_, out + j * width_);
        }
      }
    }
  }

 private:
  static std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
  static T exp_of(double exponent) {
    return static_cast<T>(std::exp(static_cast<T>(exponent)));
  }
  double sum_at(std::int64_t i, std::int64_t c) const {
    return kind_ == GateKind::kHead ? sum_[at(i)] : sum_[at(i * width_ + c)];
  }

  template <typename Exponent>
  void scale_rows(const T* x, T* out, const Exponent& exponent) const {
    for (std::int64_t i = 0; i < rows_; ++i) {
      const T* from = x + i * width_;
      T* to = out + i * width_;
      if (kind_ == GateKind::kNone) {
        std::copy(from, from + width_, to);
      } else if (kind_ == GateKind::kHead) {
        const T factor = exp_of(exponent(i, 0));
        for (std::int64_t c = 0; c < width_; ++c) to[c] = from[c] * factor;
      } else {
        for (std::int64_t c = 0; c < k_; ++c) {
          to[c] = from[c] * exp_of(exponent(i, c));
        }
        std::fill(to + k_, to + width_, T(0));
      }
    }
  }

  /// transposed_[c][i] = y[i][c], columns from `rows` on zero.
  void transpose(const T* y, std::int64_t rows) {
    std::fill(transposed_.begin(), transposed_.end(), T(0));
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t c = 0; c < k_; ++c) {
        transposed_[at(c * kChunk + i)] = y[i * width_ + c];
      }
    }
  }

  /// M times the pair decay of a per-head gate; M itself without a gate.
  const T* with_decay(const T* m) {
    if (kind_ == GateKind::kNone) return m;
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < rows_; ++j) {
        decayed_[at(i * kChunk + j)] =
            j <= i ? m[i * kChunk + j] * pair_[at(i * kChunk + j)] : T(0);
      }
    }
    return decayed_.data();
  }

  /// out_{i-first} = x_i exp(sign (G_i - G_reference)) for i in [first, last).
  void scale_block(const T* x, std::int64_t first, std::int64_t last,
                   std::int64_t reference, int sign, T* out) const {
    for (std::int64_t i = first; i < last; ++i) {
      T* to = out + (i - first) * width_;
      for (std::int64_t c = 0; c < k_; ++c) {
        to[c] = x[i * width_ + c] *
                exp_of(sign * (sum_[at(i * width_ + c)] -
                               sum_[at(reference * width_ + c)]));
      }
      std::fill(to + k_, to + width_, T(0));
    }
  }

  void add_scaled_block(const T* x, std::int64_t first, std::int64_t last,
                        std::int64_t reference, int sign, T* out) const {
    for (std::int64_t i = first; i < last; ++i) {
      for (std::int64_t c = 0; c < k_; ++c) {
        out[i * width_ + c] +=
            x[(i - first) * width_ + c] *
            exp_of(sign * (sum_[at(i * width_ + c)] -
                           sum_[at(reference * width_ + c)]));
      }
    }
  }

  void fill_factor(std::int64_t i, std::int64_t j) {
    for (std::int64_t c = 0; c < k_; ++c) {
      factor_[at(c)] =
          exp_of(sum_[at(i * width_ + c)] - sum_[at(j * width_ + c)]);
    }
  }

  void add_pair(T weight, std::int64_t i, std::int64_t j, const T* x, T* out) {
    fill_factor(i, j);
    for (std::int64_t c = 0; c < k_; ++c) {
      out[c] += weight * factor_[at(c)] * x[c];
    }
  }

  GateKind kind_;
  std::int64_t k_;
  std::int64_t width_;
  std::int64_t rows_ = 0;
  std::vector<double> sum_;    // G: [kChunk] or [kChunk][width]
  std::vector<T> pair_;        // exp(G_i - G_j), per-head gate
  std::vector<T> decayed_;     // M with the pair decay
  std::vector<T> transposed_;  // [width][kChunk]
  std::vector<T> scaled_;      // [kChunk][width], rows seen from a reference
  std::vector<T> block_;       // [kSubBlock][width]
  std::vector<T> factor_;      // exp(G_i - G_j) of one pair
};

}  // namespace osdn::ops
