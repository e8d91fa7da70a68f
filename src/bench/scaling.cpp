#include "osdn/bench/scaling.h"

#include <algorithm>
#include <numeric>

#include "osdn/arch/parameter_table.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "scaling_plan.h"

namespace osdn::bench {
namespace {

/// (n - 1) / n of the bytes pass over every link.
double over(double bytes, double n, double bytes_per_s) {
  return bytes * (n - 1) / n / bytes_per_s;
}

double ring_seconds(const Cluster& c, double per_host, double hosts,
                    double bytes) {
  const double ranks = per_host * hosts;
  const double bandwidth =
      hosts > 1 ? std::min(c.intra.bytes_per_s, per_host * c.inter.bytes_per_s)
                : c.intra.bytes_per_s;
  return c.launch_s + (ranks - hosts) * c.intra.latency_s +
         (hosts - 1) * c.inter.latency_s + over(bytes, ranks, bandwidth);
}

double hierarchical_seconds(const Cluster& c, double per_host, double hosts,
                            double bytes) {
  double seconds = 0;
  if (per_host > 1) {
    seconds += c.launch_s + (per_host - 1) * c.intra.latency_s +
               over(bytes, per_host, c.intra.bytes_per_s);
  }
  if (hosts > 1) {
    seconds += c.launch_s + (hosts - 1) * c.inter.latency_s +
               over(bytes / per_host, hosts, c.inter.bytes_per_s);
  }
  return seconds;
}

double memory_of(const ScalingCase& scaling, int ranks) {
  if (scaling.memory_bytes == 0 || !scaling.dist.shard_optimizer) {
    return scaling.memory_bytes;
  }
  double moments = 0;
  double masters = 0;
  for (const arch::Parameter& p : arch::parameter_table(scaling.model)) {
    const double bytes = 4 * static_cast<double>(p.numel());
    moments += 2 * bytes;
    // What is computed with in fp32 is its own master, whole on every rank.
    if (!arch::computes_in_fp32(p)) masters += bytes;
  }
  return scaling.memory_bytes - (moments + masters) * (ranks - 1) / ranks;
}

}  // namespace

double collective_seconds(const Cluster& cluster, int ranks, double bytes) {
  if (ranks == 1) return 0;
  const int per_host = std::min(ranks, cluster.gpus_per_host);
  if (ranks % per_host != 0) {
    throw Error(concat(ranks, " GPUs do not fill hosts of ", per_host,
                       " (--gpus-per-host)"),
                ExitCode::kUsage);
  }
  const int hosts = ranks / per_host;
  if (cluster.algorithm == Algorithm::kPeer && hosts > 1) {
    throw Error(concat(ranks, " GPUs on ", hosts,
                       " hosts do not reach one another's memory; take "
                       "--algorithm ring, or --gpus of one host"),
                ExitCode::kUsage);
  }
  // In one host the copies of peers pass over the same links as a ring.
  const double ring = ring_seconds(cluster, per_host, hosts, bytes);
  if (cluster.algorithm == Algorithm::kRing ||
      cluster.algorithm == Algorithm::kPeer) {
    return ring;
  }
  const double levels = hierarchical_seconds(cluster, per_host, hosts, bytes);
  return cluster.algorithm == Algorithm::kBest ? std::min(ring, levels)
                                               : levels;
}

double sum_seconds(const Cluster& cluster, int ranks, double bytes) {
  const bool counts = ranks > 1 && cluster.algorithm == Algorithm::kPeer &&
                      cluster.copy_bytes_per_s > 0;
  return counts ? bytes * (ranks + 1) / ranks / cluster.copy_bytes_per_s : 0;
}

ScalingPoint simulate_step(const ScalingCase& scaling, const Cluster& cluster,
                           int ranks) {
  const ScalingPlan plan = plan_step(scaling, cluster, ranks);
  const bool takes_multiprocessors = cluster.algorithm != Algorithm::kPeer;
  const Timeline end = play(plan, takes_multiprocessors ? cluster.slowdown : 0);
  const bool sharded = scaling.dist.shard_optimizer;
  const double update = scaling.compute.optimizer_s / (sharded ? ranks : 1);
  // The norm of a sharded gradient: a number from every rank.
  const double norm = sharded ? collective_seconds(cluster, ranks, 0) : 0;

  ScalingPoint point;
  point.ranks = ranks;
  point.buckets = plan.buckets;
  point.step_s = std::max(end.work_end_s, end.transfers_end_s) + norm + update +
                 (ranks > 1 ? cluster.overhead_s : 0);
  point.tokens_per_s = static_cast<double>(scaling.tokens) / point.step_s;
  point.efficiency = scaling.compute.total() / point.step_s;
  point.exposed_s = std::max(0.0, point.step_s - scaling.compute.forward_s -
                                      scaling.compute.backward_s - update);
  point.communication_s =
      std::accumulate(plan.transfers.begin(), plan.transfers.end(), norm);
  point.memory_bytes = memory_of(scaling, ranks);
  return point;
}

}  // namespace osdn::bench
