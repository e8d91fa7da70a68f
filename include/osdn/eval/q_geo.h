#pragma once
// q_geo, math.md 6: the geometric mean over tokens, heads and layers of
//
//   q_t = (1 - beta_t <d_t, k_t^2>)^2,
//
// the share of a token's own squared error that its write leaves. A larger
// beta lowers it by itself, so the mean of beta and the same measure with d
// replaced by ones, by its channel mean and by its channels in reverse order
// stand beside it.

#include <cstdint>
#include <vector>

#include "osdn/layers/attention.h"

namespace osdn::eval {

/// Sums over the tokens of one (layer, head), pooled by addition.
struct QGeoSums {
  std::int64_t count = 0;
  double log_q = 0, log_q_ones = 0, log_q_mean = 0, log_q_flip = 0;
  double q = 0, beta = 0, energy = 0, strength = 0;
  std::int64_t above_one = 0;
  std::int64_t clamped = 0;  ///< q below 1e-30

  void add(const QGeoSums& other);
};

/// Observes a model's forward passes (LanguageModel::observe).
class QGeoObserver : public layers::AttentionObserver {
 public:
  void on_attention(const layers::AttentionTrace& trace) override;

  struct Head {
    std::int64_t layer, head;
    QGeoSums sums;
  };
  /// In order of layer, then head.
  const std::vector<Head>& heads() const { return heads_; }
  QGeoSums total() const;
  bool preconditioned() const { return preconditioned_; }
  /// Over all tokens, heads and layers, within 0.02 %; 0 before any token.
  double median_q() const;

 private:
  QGeoSums& sums_of(std::int64_t layer, std::int64_t head);

  std::vector<Head> heads_;
  std::vector<std::int64_t> histogram_;  // of q, see q_geo.cpp
  bool preconditioned_ = false;
};

}  // namespace osdn::eval
