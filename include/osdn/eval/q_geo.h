#pragma once
// q_geo, math.md 6: the geometric mean over tokens, heads and layers of
//
//   q_t = (1 - beta_t <d_t, k_t^2>)^2,
//
// the share of a token's own squared error that its write leaves. A larger
// beta lowers it by itself, so the mean of beta and the same measure with d
// replaced by ones, by its channel mean and by its channels in reverse order
// stand beside it.

#include <array>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "osdn/layers/attention.h"

namespace osdn::eval {

/// Sums over tokens, pooled by addition.
struct QGeoSums {
  std::int64_t count = 0;
  double log_q = 0, log_q_ones = 0, log_q_mean = 0, log_q_flip = 0;
  double q = 0, beta = 0, energy = 0, strength = 0;
  std::int64_t above_one = 0;
  std::int64_t clamped = 0;  ///< q below 1e-30

  void add(const QGeoSums& other);
};

/// The same by head and by place.
struct QGeoTables {
  static constexpr std::int64_t kRelativeBins = 64;
  static constexpr std::int64_t kPositionsABucket = 64;

  bool preconditioned = false;
  std::map<std::pair<std::int64_t, std::int64_t>, QGeoSums>
      heads{};  ///< layer, head
  /// Bin floor(64 t / T) of position t in a document of T.
  std::array<QGeoSums, kRelativeBins> relative{};
  std::vector<QGeoSums> absolute{};  ///< positions 64 i .. 64 i + 63
  /// Tokens by q, see q_geo.cpp.
  std::map<std::uint32_t, std::int64_t> histogram{};

  void add(const QGeoTables& other);
  QGeoSums total() const;
  std::map<std::int64_t, QGeoSums> layers() const;
  /// Over all tokens, heads and layers, within 0.02 %; 0 before any token.
  double median_q() const;
};

/// Observes a model's forward passes (LanguageModel::observe).
class QGeoObserver : public layers::AttentionObserver {
 public:
  /// Where a document of a pass stands in the one that it is a piece of.
  struct Place {
    std::int64_t offset = 0;
    std::int64_t length = 0;  ///< of the whole
  };
  /// Of the documents of the next passes, until called again; without it each
  /// is whole.
  void set_places(std::vector<Place> places) { places_ = std::move(places); }

  void on_attention(const layers::AttentionTrace& trace) override;
  const QGeoTables& tables() const { return tables_; }

 private:
  QGeoTables tables_;
  std::vector<Place> places_;
};

}  // namespace osdn::eval
