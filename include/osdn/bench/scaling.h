#pragma once
// The time of a data-parallel training step on many GPUs, from what one GPU
// measured and from the speed of the links: a model, not a measurement.
//
// It follows train::Replica bucket by bucket: gradients lie in the buckets of
// dist::make_buckets in the order of the backward; one stream carries, in
// order, the weights of the last update (sharded optimizer), which the forward
// waits for parameter by parameter, and the sums of gradients, each when its
// last gradient is there. The update begins when all sums and the norm are
// known.
//
// The computation is that of the measured step, spread over the parameters that
// multiply by their size. Every rank takes exactly as long as the others.

#include <cstdint>
#include <string>
#include <vector>

#include "osdn/config/config.h"

namespace osdn::bench {

/// Of one GPU to its neighbour in the ring, one direction.
struct Link {
  double bytes_per_s = 0;
  double latency_s = 0;  ///< of a hop
};

enum class Algorithm {
  kRing,  ///< NCCL's for reduce-scatter and all-gather
  /// Within each host, then between those of equal place on all hosts.
  kHierarchical,
  kBest,  ///< the faster of the two for each bucket
  kPeer,  ///< copies between the memories of one host (dist.gpu_exchange)
};

struct Cluster {
  int gpus_per_host = 8;
  // NCCL on eight H100: 311 to 362 GB/s in a ring over NVLink without
  // multicast (github.com/NVIDIA/nccl/issues/1047); 320 to 340 GB/s a host with
  // eight NICs of 400 Gb/s each (issues 1218, 1221). Latencies as NCCL's own
  // model has them for rings of large messages (its src/graph/tuning.cc).
  Link intra{350e9, 3.4e-6};
  Link inter{41e9, 14e-6};   ///< a GPU's share of its host's NICs
  double launch_s = 8.4e-6;  ///< of any operation, before its first hop
  Algorithm algorithm = Algorithm::kRing;
  /// Of a GPU's memory, read and written: with kPeer the computation loses the
  /// time in which a bucket's packing, copies and sum have it (below); 0: none.
  double copy_bytes_per_s = 0;
  /// Part of its speed that the computation loses while something is on the
  /// stream of communication, which takes multiprocessors and memory from it.
  double slowdown = 0;
  /// What the computation loses to each bucket that is sent, however short:
  /// its packing, waits between streams, the start of its kernel.
  double stall_s = 0;
  /// What a step of several ranks loses once: the norm and the end of the step
  /// are agreed on by the hosts.
  double overhead_s = 0;
};

/// Reduce-scatter or all-gather of `bytes` over `ranks`, which fill hosts of
/// cluster.gpus_per_host. With n ranks on m hosts of g, of bandwidth b and
/// latency a inside and B and A between, launch l:
///
///   ring          l + (n - m) a + (m - 1) A + bytes (n - 1) / n / min(b, g B)
///   hierarchical  l + (g - 1) a + bytes (g - 1) / g / b
///                 + l + (m - 1) A + bytes / g (m - 1) / m / B
///   peer          l + (n - 1) a + bytes (n - 1) / n / b, on one host
///
/// the ring without g B on one host: there are as many rings as NICs, each of
/// which enters and leaves a host once. Nothing for one rank. An all-reduce is
/// the two, one after the other.
double collective_seconds(const Cluster& cluster, int ranks, double bytes);
/// What a reduce-scatter takes longer than that: with kPeer the shards are
/// added up when they are there, bytes (n + 1) / n at copy_bytes_per_s.
double sum_seconds(const Cluster& cluster, int ranks, double bytes);

/// Seconds of one step on one GPU, all micro-batches together.
struct StepCompute {
  double forward_s = 0;
  double backward_s = 0;
  double optimizer_s = 0;  ///< of all parameters

  double total() const { return forward_s + backward_s + optimizer_s; }
};

/// What every rank does.
struct ScalingCase {
  config::ModelConfig model{};
  config::DistConfig dist{};
  StepCompute compute{};
  std::int64_t tokens = 0;  ///< of a rank and step
  int micro_batches = 1;
  double memory_bytes = 0;  ///< held at most on one GPU; 0: not known
};

struct ScalingPoint {
  int ranks = 0;
  double step_s = 0;
  double tokens_per_s = 0;  ///< of a GPU
  /// tokens_per_s over that of one GPU alone. A sharded update is shorter, so
  /// that it can be above 1.
  double efficiency = 0;
  /// Of the step: what the computation alone would not take.
  double exposed_s = 0;
  double communication_s = 0;  ///< the stream is at work
  int buckets = 0;
  /// Of one GPU, less the other ranks' parts of a sharded optimizer's moments
  /// and masters; 0: not known.
  double memory_bytes = 0;
};

/// Throws Error for ranks that do not fill whole hosts, or several with kPeer.
///
/// With kPeer nothing slows the computation down but what a bucket moves in the
/// GPU's memory, at copy_bytes_per_s: a bucket of g bytes of gradients, w as
/// the weights' dtype has them, w + g to pack it, 2 g (n - 1) / n for the
/// shards fetched from here and by here, g (n + 1) / n for their sum; a gather
/// of h bytes 2 h (n - 1) / n.
ScalingPoint simulate_step(const ScalingCase& scaling, const Cluster& cluster,
                           int ranks);

}  // namespace osdn::bench
