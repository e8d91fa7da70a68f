#include "osdn/eval/q_geo.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "osdn/core/error.h"

namespace osdn::eval {
namespace {

constexpr double kFloor = 1e-30;
constexpr double kL2Eps = 1e-6;

double contraction(double beta, double energy) {
  const double shrink = 1 - beta * energy;
  return shrink * shrink;
}

double log_of(double q) {
  return std::log(std::max(q, kFloor));
}

}  // namespace

void QGeoSums::add(const QGeoSums& other) {
  count += other.count;
  log_q += other.log_q;
  log_q_ones += other.log_q_ones;
  log_q_mean += other.log_q_mean;
  log_q_flip += other.log_q_flip;
  q += other.q;
  beta += other.beta;
  energy += other.energy;
  strength += other.strength;
  above_one += other.above_one;
  clamped += other.clamped;
}

QGeoSums& QGeoObserver::sums_of(std::int64_t layer, std::int64_t head) {
  const auto place = std::lower_bound(
      heads_.begin(), heads_.end(), std::make_pair(layer, head),
      [](const Head& h, const std::pair<std::int64_t, std::int64_t>& key) {
        return std::make_pair(h.layer, h.head) < key;
      });
  if (place != heads_.end() && place->layer == layer && place->head == head) {
    return place->sums;
  }
  return heads_.insert(place, {layer, head, {}})->sums;
}

void QGeoObserver::on_attention(const layers::AttentionTrace& trace) {
  const at::NoGradGuard no_grad;
  const std::int64_t T = trace.beta.size(0);
  const std::int64_t HV = trace.beta.size(1);
  const std::int64_t K = trace.k.size(2);
  const std::int64_t group = HV / trace.k.size(1);
  at::Tensor k = trace.k;
  if (trace.options.l2_norm) {
    k = k * at::rsqrt(k.square().sum(-1, true) + kL2Eps);
  }
  const at::Tensor k_sq = k.square().to(at::kCPU, at::kDouble).contiguous();
  const at::Tensor beta = trace.beta.to(at::kCPU, at::kDouble).contiguous();
  at::Tensor d;
  if (trace.d0.defined()) {
    preconditioned_ = true;
    d = ops::preconditioner_trace({trace.k, trace.beta, trace.r, trace.d0},
                                  trace.documents, trace.options)
            .to(at::kCPU, at::kDouble)
            .contiguous();
  }
  for (std::int64_t head = 0; head < HV; ++head) {
    QGeoSums sums;
    for (std::int64_t t = 0; t < T; ++t) {
      const double* row =
          k_sq.data_ptr<double>() + (t * (HV / group) + head / group) * K;
      const double* scale =
          d.defined() ? d.data_ptr<double>() + (t * HV + head) * K : nullptr;
      double energy = 0, ones = 0, flip = 0, mean = 0;
      for (std::int64_t c = 0; c < K; ++c) {
        ones += row[c];
        if (!scale) continue;
        energy += scale[c] * row[c];
        flip += scale[K - 1 - c] * row[c];
        mean += scale[c];
      }
      if (!scale) {
        energy = flip = ones;
        mean = static_cast<double>(K);
      }
      const double b = beta.data_ptr<double>()[t * HV + head];
      const double q = contraction(b, energy);
      sums.log_q += log_of(q);
      sums.log_q_ones += log_of(contraction(b, ones));
      sums.log_q_mean +=
          log_of(contraction(b, mean / static_cast<double>(K) * ones));
      sums.log_q_flip += log_of(contraction(b, flip));
      sums.q += q;
      sums.beta += b;
      sums.energy += energy;
      sums.strength += b * energy;
      sums.above_one += q > 1 ? 1 : 0;
      sums.clamped += q < kFloor ? 1 : 0;
      q_.push_back(static_cast<float>(q));
    }
    sums.count = T;
    sums_of(trace.layer, head).add(sums);
  }
}

QGeoSums QGeoObserver::total() const {
  QGeoSums total;
  for (const Head& head : heads_) total.add(head.sums);
  return total;
}

double QGeoObserver::median_q() const {
  if (q_.empty()) return 0;
  std::vector<float> values = q_;
  const auto middle =
      values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  const float below = *std::max_element(values.begin(), middle);
  return 0.5 * (static_cast<double>(below) + static_cast<double>(*middle));
}

}  // namespace osdn::eval
