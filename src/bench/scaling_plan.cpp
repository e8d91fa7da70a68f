#include "scaling_plan.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "osdn/arch/parameter_table.h"
#include "osdn/config/bucket_elements.h"
#include "osdn/dist/shard_layout.h"
#include "osdn/train/replica.h"

namespace osdn::bench {
namespace {

using arch::Parameter;

/// The share of the computation that comes with each parameter, in the order of
/// the table; one more for a tied head, which is the embedding used again.
std::vector<double> shares(const std::vector<Parameter>& table, bool tied) {
  std::vector<double> share;
  share.reserve(table.size() + 1);
  for (const Parameter& parameter : table) {
    share.push_back(static_cast<double>(arch::multiplied_elements(parameter)));
  }
  if (tied) share.push_back(static_cast<double>(table.front().numel()));
  const double all = std::accumulate(share.begin(), share.end(), 0.0);
  for (double& one : share) one /= all;
  return share;
}

DType computed_in(const Parameter& parameter) {
  return arch::computes_in_fp32(parameter) ? DType::kF32 : DType::kBF16;
}

class Planner {
 public:
  Planner(const ScalingCase& scaling, const Cluster& cluster, int ranks)
      : scaling_(scaling),
        cluster_(cluster),
        ranks_(ranks),
        table_(arch::parameter_table(scaling.model)),
        shares_(shares(table_, scaling.model.tie_word_embeddings)) {
    std::vector<dist::FlatTensor> tensors;
    for (auto p = table_.rbegin(); p != table_.rend(); ++p) {
      tensors.push_back({computed_in(*p), p->numel()});
    }
    buckets_ = dist::make_buckets(tensors, ranks,
                                  config::bucket_elements(scaling.dist));
    bucket_of_.resize(table_.size());
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      for (const dist::Bucket::Item& item : buckets_[b].items) {
        bucket_of_[table_.size() - 1 - item.tensor] = b;
      }
    }
  }

  ScalingPlan plan() {
    ScalingPlan out;
    out.buckets = static_cast<int>(buckets_.size());
    const bool gathers = scaling_.dist.shard_optimizer && ranks_ > 1;
    if (gathers) gather_weights(out);
    const double parts = scaling_.micro_batches;
    for (int micro = 0; micro < scaling_.micro_batches; ++micro) {
      forward(out, scaling_.compute.forward_s / parts, gathers && micro == 0);
      backward(out, scaling_.compute.backward_s / parts,
               micro + 1 == scaling_.micro_batches);
    }
    return out;
  }

 private:
  double reduce_bytes(DType computed) const {
    return scaling_.dist.reduce_dtype == "bf16" && computed == DType::kBF16 ? 2
                                                                            : 4;
  }

  /// Weights come in the order in which the forward uses them.
  void gather_weights(ScalingPlan& out) const {
    for (auto b = buckets_.rbegin(); b != buckets_.rend(); ++b) {
      out.transfers.push_back(
          collective_seconds(cluster_, ranks_, weight_bytes(*b)));
    }
    // They begin at once.
    out.work.push_back({0, 0, static_cast<int>(out.transfers.size())});
  }

  void forward(ScalingPlan& out, double seconds, bool waits) const {
    std::size_t arrived = 0;
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      // Bucket b is the last but b to be gathered.
      const std::size_t after =
          waits && i < table_.size() ? buckets_.size() - bucket_of_[i] : 0;
      double lost = 0;
      for (; arrived < after; ++arrived) {
        lost += gather_loss(buckets_[buckets_.size() - 1 - arrived]);
      }
      out.work.push_back(
          {shares_[i] * seconds + lost, static_cast<int>(after), 0});
    }
  }

  void backward(ScalingPlan& out, double seconds, bool last) const {
    std::vector<std::size_t> missing;
    for (const dist::Bucket& b : buckets_) missing.push_back(b.items.size());
    std::size_t next = 0;
    // Of the products that train::Replica counts: a tied head is none of them.
    double to_come = 1;
    const double counted = std::accumulate(
        shares_.begin(),
        shares_.begin() + static_cast<std::ptrdiff_t>(table_.size()), 0.0);
    for (std::size_t i = shares_.size(); i-- > 0;) {
      ScalingWork work{shares_[i] * seconds, 0, 0};
      if (i < table_.size()) to_come -= shares_[i] / counted;
      if (last && i < table_.size()) {
        --missing[bucket_of_[i]];
        if (held_back(to_come)) {
          out.work.push_back(work);
          continue;
        }
        for (; next < buckets_.size() && missing[next] == 0; ++next) {
          sum_gradients(out, buckets_[next]);
          work.seconds += sum_loss(buckets_[next]);
          ++work.releases;
        }
      }
      out.work.push_back(work);
    }
  }

  void sum_gradients(ScalingPlan& out, const dist::Bucket& bucket) const {
    const double bytes =
        static_cast<double>(bucket.size) * reduce_bytes(bucket.dtype);
    const double once = collective_seconds(cluster_, ranks_, bytes);
    out.transfers.push_back(sum_seconds(cluster_, ranks_, bytes) +
                            (scaling_.dist.shard_optimizer ? once : 2 * once));
  }

  bool held_back(double to_come) const {
    return cluster_.algorithm == Algorithm::kPeer && to_come > train::kHeldBack;
  }

  /// What the computation loses to a bucket's gradients, and to its weights.
  double sum_loss(const dist::Bucket& bucket) const {
    const double sent =
        static_cast<double>(bucket.size) * reduce_bytes(bucket.dtype);
    const double n = ranks_;
    double moved = weight_bytes(bucket) + sent + 2 * sent * (n - 1) / n +
                   sent * (n + 1) / n;
    if (!scaling_.dist.shard_optimizer) moved += 2 * sent * (n - 1) / n;
    return loss(moved);
  }
  double gather_loss(const dist::Bucket& bucket) const {
    return loss(2 * weight_bytes(bucket) * (ranks_ - 1) / ranks_);
  }
  static double weight_bytes(const dist::Bucket& bucket) {
    return static_cast<double>(bucket.size) *
           static_cast<double>(size_of(bucket.dtype));
  }
  double loss(double moved) const {
    if (ranks_ == 1) return 0;
    const bool counts =
        cluster_.algorithm == Algorithm::kPeer && cluster_.copy_bytes_per_s > 0;
    return cluster_.stall_s + (counts ? moved / cluster_.copy_bytes_per_s : 0);
  }

  const ScalingCase& scaling_;
  const Cluster& cluster_;
  const int ranks_;
  const std::vector<Parameter> table_;
  const std::vector<double> shares_;
  std::vector<dist::Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  ///< by place in the table
};

}  // namespace

ScalingPlan plan_step(const ScalingCase& scaling, const Cluster& cluster,
                      int ranks) {
  return Planner(scaling, cluster, ranks).plan();
}

Timeline play(const ScalingPlan& plan, double slowdown) {
  const std::size_t works = plan.work.size();
  const std::size_t transfers = plan.transfers.size();
  std::size_t w = 0;  // at work on, or waiting to begin
  std::size_t t = 0;
  std::size_t released = 0;
  double now = 0;
  double work_left = works > 0 ? plan.work[0].seconds : 0;
  double transfer_left = transfers > 0 ? plan.transfers[0] : 0;
  Timeline end;
  while (w < works || t < released) {
    const bool sending = t < released;
    const bool working =
        w < works && t >= static_cast<std::size_t>(plan.work[w].after);
    if (!working && !sending) {
      throw std::logic_error("work waits for a transfer that nothing releases");
    }
    const double speed = sending ? 1 - slowdown : 1;
    // The next thing to end.
    const double until_work = work_left / speed;
    const bool work_ends = working && (!sending || until_work <= transfer_left);
    const double passed = work_ends ? until_work : transfer_left;
    now += passed;
    if (working) work_left = std::max(0.0, work_left - passed * speed);
    if (sending) transfer_left = std::max(0.0, transfer_left - passed);
    if (work_ends) {
      released += static_cast<std::size_t>(plan.work[w].releases);
      end.work_end_s = now;
      if (++w < works) work_left = plan.work[w].seconds;
    } else {
      end.transfers_end_s = now;
      if (++t < transfers) transfer_left = plan.transfers[t];
    }
  }
  return end;
}

}  // namespace osdn::bench
