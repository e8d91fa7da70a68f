#include "osdn/eval/q_geo.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace osdn::eval {
namespace {

constexpr double kFloor = 1e-30;
constexpr double kL2Eps = 1e-6;

double contraction(double beta, double energy) {
  const double shrink = 1 - beta * energy;
  return shrink * shrink;
}

// The median comes from a histogram over the leading 12 bits of q's mantissa
// as a float: bounded memory, whatever the number of tokens.
constexpr int kDroppedBits = 11;
constexpr std::size_t kBins = std::size_t{1} << (31 - kDroppedBits);

std::size_t bin_of(double q) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(q));
  const std::uint32_t rounded =
      (bits & 0x7FFFFFFFU) + (1U << (kDroppedBits - 1));
  return std::min<std::size_t>(rounded >> kDroppedBits, kBins - 1);
}

double value_of(std::size_t bin) {
  return static_cast<double>(
      std::bit_cast<float>(static_cast<std::uint32_t>(bin << kDroppedBits)));
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
  histogram_.resize(kBins);
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
      ++histogram_[bin_of(q)];
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
  const std::int64_t count = total().count;
  if (count == 0) return 0;
  // The two middle ones, which are one and the same for an odd count.
  const auto ranked = [&](std::int64_t rank) {
    std::size_t bin = 0;
    for (std::int64_t below = histogram_[0]; below <= rank;
         below += histogram_[++bin]) {
    }
    return value_of(bin);
  };
  return 0.5 * (ranked((count - 1) / 2) + ranked(count / 2));
}

}  // namespace osdn::eval
