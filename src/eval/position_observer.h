#pragma once
// The preconditioner d by position: what drifts where a long text goes wrong.

#include <cstdint>
#include <vector>

#include "osdn/layers/attention.h"

namespace osdn::eval {

/// Sums of d over tokens, layers, heads and channels, by buckets of positions.
/// Sees passes of a single document each.
class PositionObserver : public layers::AttentionObserver {
 public:
  PositionObserver(std::int64_t buckets, std::int64_t positions_a_bucket);

  /// Position of the next pass's first token.
  void set_offset(std::int64_t offset) { offset_ = offset; }
  void on_attention(const layers::AttentionTrace& trace) override;

  struct Bucket {
    std::int64_t channels = 0;  ///< values of d; 0 without a preconditioner
    double d = 0;               ///< their sum
    std::int64_t on_box = 0;    ///< how many stand at d_min or d_max
  };
  const std::vector<Bucket>& buckets() const { return buckets_; }

 private:
  std::vector<Bucket> buckets_;
  std::int64_t width_;
  std::int64_t offset_ = 0;
};

}  // namespace osdn::eval
