#include "osdn/eval/q_geo.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <bit>
#include <cmath>

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

std::uint32_t bin_of(double q) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(q));
  return ((bits & 0x7FFFFFFFU) + (1U << (kDroppedBits - 1))) >> kDroppedBits;
}

double value_of(std::uint32_t bin) {
  return static_cast<double>(std::bit_cast<float>(bin << kDroppedBits));
}

double log_of(double q) {
  return std::log(std::max(q, kFloor));
}

/// What one head's recurrence saw at each token, in double on the CPU.
struct Seen {
  at::Tensor k_sq;  ///< [T, H, K]
  at::Tensor beta;  ///< [T, HV]
  at::Tensor d;     ///< [T, HV, K]; undefined: ones
  std::int64_t group, HV, K;

  /// One token's sums.
  QGeoSums at(std::int64_t t, std::int64_t head) const {
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
    QGeoSums s;
    s.count = 1;
    s.q = contraction(b, energy);
    s.log_q = log_of(s.q);
    s.log_q_ones = log_of(contraction(b, ones));
    s.log_q_mean = log_of(contraction(b, mean / static_cast<double>(K) * ones));
    s.log_q_flip = log_of(contraction(b, flip));
    s.beta = b;
    s.energy = energy;
    s.strength = b * energy;
    s.above_one = s.q > 1 ? 1 : 0;
    s.clamped = s.q < kFloor ? 1 : 0;
    return s;
  }
};

Seen seen_in(const layers::AttentionTrace& trace) {
  const std::int64_t HV = trace.beta.size(1);
  at::Tensor k = trace.k;
  if (trace.options.l2_norm) {
    k = k * at::rsqrt(k.square().sum(-1, true) + kL2Eps);
  }
  Seen seen{k.square().to(at::kCPU, at::kDouble).contiguous(),
            trace.beta.to(at::kCPU, at::kDouble).contiguous(),
            {},
            HV / trace.k.size(1),
            HV,
            trace.k.size(2)};
  if (trace.d0.defined()) {
    seen.d = ops::preconditioner_trace({trace.k, trace.beta, trace.r, trace.d0},
                                       trace.documents, trace.options)
                 .to(at::kCPU, at::kDouble)
                 .contiguous();
  }
  return seen;
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

void QGeoTables::add(const QGeoTables& other) {
  preconditioned = preconditioned || other.preconditioned;
  for (const auto& [head, sums] : other.heads) heads[head].add(sums);
  for (std::size_t i = 0; i < relative.size(); ++i) {
    relative[i].add(other.relative[i]);
  }
  absolute.resize(std::max(absolute.size(), other.absolute.size()));
  for (std::size_t i = 0; i < other.absolute.size(); ++i) {
    absolute[i].add(other.absolute[i]);
  }
  for (const auto& [bin, count] : other.histogram) histogram[bin] += count;
}

QGeoSums QGeoTables::total() const {
  QGeoSums total;
  for (const auto& [head, sums] : heads) total.add(sums);
  return total;
}

std::map<std::int64_t, QGeoSums> QGeoTables::layers() const {
  std::map<std::int64_t, QGeoSums> layers;
  for (const auto& [head, sums] : heads) layers[head.first].add(sums);
  return layers;
}

double QGeoTables::median_q() const {
  const std::int64_t count = total().count;
  if (count == 0) return 0;
  // The two middle ones, which are one and the same for an odd count.
  const auto ranked = [&](std::int64_t rank) {
    auto bin = histogram.begin();
    for (std::int64_t below = bin->second; below <= rank;
         below += bin->second) {
      ++bin;
    }
    return value_of(bin->first);
  };
  return 0.5 * (ranked((count - 1) / 2) + ranked(count / 2));
}

void QGeoObserver::on_attention(const layers::AttentionTrace& trace) {
  const at::NoGradGuard no_grad;
  const Seen seen = seen_in(trace);
  tables_.preconditioned = tables_.preconditioned || seen.d.defined();
  for (std::int64_t n = 0; n < trace.documents.count(); ++n) {
    const std::int64_t begin = trace.documents.begin(n);
    const std::int64_t length = trace.documents.end(n) - begin;
    const Place place = places_.empty()
                            ? Place{0, length}
                            : places_.at(static_cast<std::size_t>(n));
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t t = place.offset + i;
      const auto bin = static_cast<std::size_t>(QGeoTables::kRelativeBins * t /
                                                place.length);
      const auto bucket =
          static_cast<std::size_t>(t / QGeoTables::kPositionsABucket);
      if (bucket >= tables_.absolute.size()) {
        tables_.absolute.resize(bucket + 1);
      }
      for (std::int64_t head = 0; head < seen.HV; ++head) {
        const QGeoSums sums = seen.at(begin + i, head);
        tables_.heads[{trace.layer, head}].add(sums);
        tables_.relative[bin].add(sums);
        tables_.absolute[bucket].add(sums);
        ++tables_.histogram[bin_of(sums.q)];
      }
    }
  }
}

}  // namespace osdn::eval
