// The measure on hand-made layers, against the recurrence itself, and in a
// whole model.

#include "osdn/eval/q_geo.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "osdn/core/random.h"
#include "osdn/eval/window_batches.h"
#include "osdn/model/trained_model.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace osdn::eval {
namespace {

/// A layer's keys, write strengths and retention, without a model.
struct Layer {
  ops::Documents documents;
  at::Tensor k, beta, r, d0;
  ops::PreconditionerOptions options;

  layers::AttentionTrace trace(std::int64_t layer = 0) const {
    return {layer, documents, k, beta, r, d0, options};
  }
};

at::Tensor uniform(Xoshiro256& random, std::vector<std::int64_t> shape,
                   double low, double high) {
  at::Tensor out = at::empty(shape, at::kDouble);
  double* values = out.data_ptr<double>();
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    values[i] = low + (high - low) * random.uniform();
  }
  return out;
}

/// HV = 4 heads of H = 2 keys, documents of 20, 0 and 13 tokens.
Layer random_layer() {
  constexpr std::int64_t H = 2, HV = 4, K = 6;
  Xoshiro256 random(11);
  const ops::Documents documents({0, 20, 20, 33});
  Layer layer{documents,
              uniform(random, {33, H, K}, -1, 1),
              uniform(random, {33, HV}, 0.05, 0.9),
              uniform(random, {33, HV}, 0.9, 1),
              uniform(random, {HV, K}, 0.6, 1.8),
              {}};
  layer.options.eta = 0.4;
  return layer;
}

QGeoSums observed(const Layer& layer) {
  QGeoObserver observer;
  observer.on_attention(layer.trace());
  return observer.tables().total();
}

double geometric(double log_sum, const QGeoSums& sums) {
  return std::exp(log_sum / static_cast<double>(sums.count));
}

TEST(QGeo, half_a_write_of_a_unit_key_leaves_a_quarter) {
  Layer layer{ops::Documents::single(3),
              at::zeros({3, 1, 4}, at::kDouble),
              at::full({3, 1}, 0.5, at::kDouble),
              {},
              {},
              {}};
  layer.options.l2_norm = false;
  for (std::int64_t t = 0; t < 3; ++t) layer.k[t][0][t] = 1;
  QGeoObserver observer;
  observer.on_attention(layer.trace());
  EXPECT_FALSE(observer.tables().preconditioned);
  EXPECT_DOUBLE_EQ(
      geometric(observer.tables().total().log_q, observer.tables().total()),
      0.25);
  EXPECT_EQ(observer.tables().median_q(), 0.25);
  EXPECT_EQ(observer.tables().total().count, 3);

  layer.d0 = at::ones({1, 4}, at::kDouble);
  layer.options.eta = 0;
  EXPECT_DOUBLE_EQ(geometric(observed(layer).log_q, observed(layer)), 0.25);
}

TEST(QGeo, without_steps_from_one_it_is_the_baseline_bit_for_bit) {
  Layer layer = random_layer();
  layer.d0 = at::ones({4, 6}, at::kDouble);
  layer.r = at::Tensor();
  layer.options.eta = 0;
  Layer plain = layer;
  plain.d0 = at::Tensor();
  const QGeoSums a = observed(layer);
  const QGeoSums b = observed(plain);
  EXPECT_EQ(a.log_q, b.log_q);
  EXPECT_EQ(a.q, b.q);
  EXPECT_EQ(a.strength, b.strength);
  EXPECT_EQ(a.log_q, a.log_q_ones);
  EXPECT_EQ(a.log_q, a.log_q_mean);
  EXPECT_EQ(a.log_q, a.log_q_flip);
}

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// One head of the delta rule with d's recurrence, math.md 2 written out.
class Head {
 public:
  Head(Vector d0, std::size_t values, double eta)
      : d_(std::move(d0)), rows_(values, Vector(d_.size(), 0.0)), eta_(eta) {}

  const Vector& d() const { return d_; }
  Vector error(const Vector& k, const Vector& v) const {
    Vector e;
    for (std::size_t j = 0; j < v.size(); ++j) {
      e.push_back(v[j] - dot(rows_[j], k));
    }
    return e;
  }
  void write(const Vector& k, const Vector& v, double beta) {
    const Vector e = error(k, v);
    for (std::size_t j = 0; j < v.size(); ++j) {
      for (std::size_t c = 0; c < k.size(); ++c) {
        rows_[j][c] += d_[c] * k[c] * beta * e[j];
      }
    }
  }
  void update_d(const Vector& k_sq, double beta, double r) {
    const double s = dot(d_, k_sq);
    const double norm = dot(Vector(k_sq.size(), 1.0), k_sq);
    for (std::size_t c = 0; c < d_.size(); ++c) {
      d_[c] = std::clamp(
          r * d_[c] + eta_ * beta * (1 - beta * s) / norm * k_sq[c], 0.5, 2.0);
    }
  }

 private:
  Vector d_;
  std::vector<Vector> rows_;  // of S transposed
  double eta_;
};

/// Sums of logs over all tokens and heads.
struct Measured {
  double ratio = 0;  ///< of squared errors, after over before the write
  double ones = 0, mean = 0, flip = 0;
  std::int64_t count = 0;
  double smallest_error = 1e9;
};

void measure_token(Head& head, const Vector& k, const Vector& v, double beta,
                   double r, Measured& out) {
  Vector k_sq;
  for (const double x : k) k_sq.push_back(x * x);
  const Vector ones(k.size(), 1.0);
  const Vector flip(head.d().rbegin(), head.d().rend());
  const double mean =
      dot(head.d(), ones) / static_cast<double>(head.d().size());
  const auto log_q = [&](double energy) {
    return 2 * std::log(std::abs(1 - beta * energy));
  };
  out.ones += log_q(dot(ones, k_sq));
  out.mean += log_q(mean * dot(ones, k_sq));
  out.flip += log_q(dot(flip, k_sq));

  const Vector before = head.error(k, v);
  head.write(k, v, beta);
  const Vector after = head.error(k, v);
  out.ratio += std::log(dot(after, after) / dot(before, before));
  out.smallest_error = std::min(out.smallest_error, dot(before, before));
  ++out.count;
  head.update_d(k_sq, beta, r);
}

/// Document by document, head by head, the state carried from token to token.
Measured measure(const Layer& layer) {
  const std::int64_t heads = layer.beta.size(1), K = layer.k.size(2);
  const std::int64_t group = heads / layer.k.size(1);
  const auto keys = layer.k.accessor<double, 3>();
  const auto beta = layer.beta.accessor<double, 2>();
  const auto r = layer.r.accessor<double, 2>();
  const auto d0 = layer.d0.accessor<double, 2>();
  Xoshiro256 random(12);
  Measured out;
  for (std::int64_t n = 0; n < layer.documents.count(); ++n) {
    for (std::int64_t h = 0; h < heads; ++h) {
      Head head(Vector(d0[h].data(), d0[h].data() + K), 5, layer.options.eta);
      for (std::int64_t t = layer.documents.begin(n);
           t < layer.documents.end(n); ++t) {
        const double* row = keys[t][h / group].data();
        Vector k(row, row + K);
        const double norm = std::sqrt(dot(k, k) + 1e-6);
        for (double& x : k) x /= norm;
        Vector v;
        for (int j = 0; j < 5; ++j) v.push_back(random.uniform() * 2 - 1);
        measure_token(head, k, v, beta[t][h], r[t][h], out);
      }
    }
  }
  return out;
}

TEST(QGeo, equals_the_measured_ratio_of_squared_errors) {
  const Layer layer = random_layer();
  const QGeoSums sums = observed(layer);
  const Measured measured = measure(layer);
  ASSERT_GT(measured.smallest_error, 1e-10);
  EXPECT_EQ(sums.count, measured.count);
  EXPECT_EQ(sums.count, 33 * 4);
  EXPECT_NEAR(sums.log_q, measured.ratio, 1e-8);
  EXPECT_NEAR(sums.log_q_ones, measured.ones, 1e-9);
  EXPECT_NEAR(sums.log_q_mean, measured.mean, 1e-9);
  EXPECT_NEAR(sums.log_q_flip, measured.flip, 1e-9);
  // They are four different numbers here.
  EXPECT_GT(std::abs(sums.log_q - sums.log_q_ones), 1);
  EXPECT_GT(std::abs(sums.log_q - sums.log_q_mean), 1);
  EXPECT_GT(std::abs(sums.log_q - sums.log_q_flip), 1);
}

TEST(QGeo, companions_and_clamped_tokens) {
  // Strengths of 1 (q = 0, clamped), 0.5 and 3 (q = 4, above one).
  Layer layer{ops::Documents::single(3),
              at::zeros({3, 1, 2}, at::kDouble),
              at::empty({3, 1}, at::kDouble),
              {},
              {},
              {}};
  layer.options.l2_norm = false;
  layer.k.select(2, 0).fill_(1);
  const double strengths[] = {1, 0.5, 3};
  for (std::int64_t t = 0; t < 3; ++t) layer.beta[t][0] = strengths[t];
  QGeoObserver observer;
  observer.on_attention(layer.trace());
  const QGeoSums s = observer.tables().total();
  EXPECT_DOUBLE_EQ(s.log_q, std::log(1e-30) + std::log(0.25) + std::log(4.0));
  EXPECT_EQ(s.clamped, 1);
  EXPECT_EQ(s.above_one, 1);
  EXPECT_DOUBLE_EQ(s.q, 4.25);
  EXPECT_DOUBLE_EQ(s.beta, 4.5);
  EXPECT_DOUBLE_EQ(s.energy, 3);
  EXPECT_DOUBLE_EQ(s.strength, 4.5);
  EXPECT_EQ(observer.tables().median_q(), 0.25);
  observer.on_attention(layer.trace(1));
  EXPECT_EQ(observer.tables().median_q(), 0.25);
  ASSERT_EQ(observer.tables().heads.size(), 2U);
  EXPECT_EQ(observer.tables().heads.rbegin()->first,
            std::make_pair(std::int64_t{1}, std::int64_t{0}));
}

TEST(QGeo, median_of_many) {
  Xoshiro256 random(4);
  Layer layer{ops::Documents::single(1000),
              at::ones({1000, 1, 1}, at::kDouble),
              uniform(random, {1000, 1}, 0, 1),
              {},
              {},
              {}};
  layer.options.l2_norm = false;
  std::vector<double> q;
  for (std::int64_t t = 0; t < 1000; ++t) {
    q.push_back(std::pow(1 - layer.beta[t][0].item<double>(), 2));
  }
  std::sort(q.begin(), q.end());
  QGeoObserver observer;
  EXPECT_EQ(observer.tables().median_q(), 0);
  observer.on_attention(layer.trace());
  const double median = 0.5 * (q[499] + q[500]);
  EXPECT_NEAR(observer.tables().median_q(), median, 2e-4 * median);
}

TEST(QGeo, a_model_gives_the_same_in_pieces_with_its_state_carried) {
  const osdn::test::TempDir dir;
  // Gated DeltaNet with twice as many value heads.
  const nlohmann::json config = {{"layer", "gdn"},
                                 {"vocab_size", test::kVocab},
                                 {"hidden_size", 32},
                                 {"num_layers", 2},
                                 {"num_heads", 2},
                                 {"num_v_heads", 4},
                                 {"head_dim", 8},
                                 {"intermediate_size", 48},
                                 {"initializer_range", 0.3},
                                 {"preconditioner", {{"eta", 0.5}}}};
  test::save_checkpoint(dir / "run", 1, config);
  model::TrainedModel trained =
      model::load_trained_model(dir / "run", at::kDouble, at::kCPU);
  Xoshiro256 random(8);
  std::vector<WindowRequest> requests;
  for (int i = 0; i < 3; ++i) {
    std::vector<std::int32_t> tokens;
    for (int t = 0; t < 40; ++t) {
      tokens.push_back(static_cast<std::int32_t>(random.below(test::kVocab)));
    }
    requests.push_back(block_requests(i, tokens, 1, std::nullopt).front());
  }
  const auto total = [&](std::int64_t batch_tokens) {
    QGeoObserver observer;
    trained.model.observe(&observer);
    run_requests(trained.model, requests, batch_tokens, [](std::int64_t) {});
    trained.model.observe(nullptr);
    EXPECT_EQ(observer.tables().heads.size(), 2U * 4U);
    return observer.tables().total();
  };
  const QGeoSums whole = total(1000);
  EXPECT_EQ(whole.count, 3 * 41 * 4 * 2);
  EXPECT_NE(whole.log_q, whole.log_q_ones);
  for (const std::int64_t batch_tokens : {7, 41, 90}) {
    const QGeoSums pieces = total(batch_tokens);
    EXPECT_EQ(pieces.count, whole.count);
    EXPECT_NEAR(pieces.log_q, whole.log_q, 1e-8) << batch_tokens;
    EXPECT_NEAR(pieces.log_q_flip, whole.log_q_flip, 1e-8) << batch_tokens;
  }
}

}  // namespace
}  // namespace osdn::eval
