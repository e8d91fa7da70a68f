// The scaling model where its answer can be had by hand.

#include "osdn/bench/scaling.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "osdn/arch/parameter_table.h"
#include "osdn/core/error.h"
#include "support/message_of.h"

namespace osdn::bench {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

config::ModelConfig small_model() {
  config::ModelConfig model;
  model.vocab_size = 512;
  model.hidden_size = 64;
  model.num_layers = 4;
  model.num_heads = 2;
  model.intermediate_size = 128;
  return model;
}

ScalingCase small_case() {
  ScalingCase scaling;
  scaling.model = small_model();
  scaling.compute = {0.010, 0.020, 0.004};
  scaling.tokens = 4096;
  scaling.dist.bucket_mb = 0.05;
  scaling.dist.reduce_dtype = "fp32";
  scaling.dist.shard_optimizer = true;
  return scaling;
}

/// Everything in one bucket of bf16 and one of fp32.
ScalingCase one_bucket() {
  ScalingCase scaling = small_case();
  scaling.dist.bucket_mb = 1000;
  return scaling;
}

Cluster slow_cluster() {
  Cluster cluster;
  cluster.gpus_per_host = 4;
  cluster.intra = {1e9, 2e-6};
  cluster.inter = {1e8, 2e-5};
  cluster.launch_s = 1e-6;
  return cluster;
}

/// Elements of the two buckets of one_bucket(), each parameter from a multiple
/// of 64 on and a shard a multiple of 64, too.
struct Elements {
  double bf16 = 0;
  double fp32 = 0;
};
Elements elements(const config::ModelConfig& model, int ranks) {
  std::int64_t bf16 = 0;
  std::int64_t fp32 = 0;
  for (const arch::Parameter& p : arch::parameter_table(model)) {
    (arch::computes_in_fp32(p) ? fp32 : bf16) += (p.numel() + 63) / 64 * 64;
  }
  const auto padded = [&](std::int64_t all) {
    const std::int64_t unit = 64 * ranks;
    return static_cast<double>((all + unit - 1) / unit * unit);
  };
  return {padded(bf16), padded(fp32)};
}

TEST(CollectiveSeconds, of_one_rank_is_nothing) {
  EXPECT_EQ(collective_seconds(slow_cluster(), 1, 1e9), 0);
}

TEST(CollectiveSeconds, of_a_ring_in_a_host) {
  // Three hops of a quarter each.
  EXPECT_DOUBLE_EQ(collective_seconds(slow_cluster(), 4, 8e6),
                   1e-6 + 3 * 2e-6 + 6e6 / 1e9);
  EXPECT_DOUBLE_EQ(collective_seconds(slow_cluster(), 2, 8e6),
                   1e-6 + 2e-6 + 4e6 / 1e9);
}

TEST(CollectiveSeconds, of_a_ring_over_hosts) {
  // 12 ranks on 3 hosts: 9 hops inside and 2 between; 4 NICs of 1e8.
  EXPECT_DOUBLE_EQ(collective_seconds(slow_cluster(), 12, 12e6),
                   1e-6 + 9 * 2e-6 + 2 * 2e-5 + 11e6 / 4e8);
  // With faster NICs than links the links count.
  Cluster cluster = slow_cluster();
  cluster.inter.bytes_per_s = 1e12;
  EXPECT_DOUBLE_EQ(collective_seconds(cluster, 12, 12e6),
                   1e-6 + 9 * 2e-6 + 2 * 2e-5 + 11e6 / 1e9);
}

TEST(CollectiveSeconds, of_two_levels) {
  Cluster cluster = slow_cluster();
  cluster.algorithm = Algorithm::kHierarchical;
  EXPECT_DOUBLE_EQ(collective_seconds(cluster, 12, 12e6),
                   1e-6 + 3 * 2e-6 + 9e6 / 1e9 + 1e-6 + 2 * 2e-5 + 2e6 / 1e8);
  cluster.algorithm = Algorithm::kBest;
  for (const double bytes : {1e3, 1e6, 1e9}) {
    Cluster other = slow_cluster();
    const double ring = collective_seconds(other, 1024, bytes);
    other.algorithm = Algorithm::kHierarchical;
    EXPECT_EQ(collective_seconds(cluster, 1024, bytes),
              std::min(ring, collective_seconds(other, 1024, bytes)));
  }
}

TEST(CollectiveSeconds, of_copies_between_memories_of_one_host) {
  Cluster cluster = slow_cluster();
  cluster.algorithm = Algorithm::kPeer;
  EXPECT_DOUBLE_EQ(collective_seconds(cluster, 4, 8e6),
                   1e-6 + 3 * 2e-6 + 6e6 / 1e9);
  EXPECT_EQ(test::message_of([&] { collective_seconds(cluster, 8, 8e6); },
                             ExitCode::kUsage),
            "8 GPUs on 2 hosts do not reach one another's memory; take "
            "--algorithm ring, or --gpus of one host");
}

TEST(CollectiveSeconds, needs_full_hosts) {
  EXPECT_THROW(collective_seconds(slow_cluster(), 6, 1), Error);
  EXPECT_NO_THROW(collective_seconds(slow_cluster(), 3, 1));
}

TEST(Scaling, one_rank_communicates_nothing) {
  const ScalingPoint point = simulate_step(small_case(), slow_cluster(), 1);
  EXPECT_DOUBLE_EQ(point.step_s, 0.034);
  EXPECT_DOUBLE_EQ(point.efficiency, 1);
  EXPECT_EQ(point.communication_s, 0);
  EXPECT_NEAR(point.exposed_s, 0, 1e-15);
  EXPECT_DOUBLE_EQ(point.tokens_per_s, 4096 / 0.034);
}

// Copies take no multiprocessors, only the time in which the memory moves what
// is packed, fetched, added up and gathered. Behind the backward the last
// bucket is still to be added up.
TEST(Scaling, peers_lose_what_they_move_in_memory) {
  const ScalingCase scaling = one_bucket();
  Cluster cluster;
  cluster.algorithm = Algorithm::kPeer;
  cluster.intra = {kInfinite, 0};
  cluster.launch_s = 0;
  cluster.slowdown = 0.5;
  cluster.copy_bytes_per_s = 1e9;
  for (const int n : {2, 4}) {
    const Elements e = elements(scaling.model, n);
    const double gradients = 4 * (e.bf16 + e.fp32);
    const double weights = 2 * e.bf16 + 4 * e.fp32;
    const double others = (n - 1.0) / n;
    const double moved = weights + gradients + 2 * others * gradients +
                         gradients * (n + 1) / n + 2 * others * weights;
    EXPECT_NEAR(simulate_step(scaling, cluster, n).step_s,
                0.030 + 0.004 / n + (moved + 4 * e.bf16 * (n + 1) / n) / 1e9,
                1e-12);
  }
  EXPECT_DOUBLE_EQ(simulate_step(scaling, cluster, 1).step_s, 0.034);
}

TEST(Scaling, links_without_limits_leave_the_computation_alone) {
  Cluster cluster;
  cluster.gpus_per_host = 8;
  cluster.intra = {kInfinite, 0};
  cluster.inter = {kInfinite, 0};
  cluster.launch_s = 0;
  cluster.slowdown = 0.5;  // what takes no time slows nothing down
  ScalingCase scaling = small_case();
  for (const int ranks : {2, 8, 64, 1024}) {
    const ScalingPoint point = simulate_step(scaling, cluster, ranks);
    EXPECT_NEAR(point.step_s, 0.030 + 0.004 / ranks, 1e-12);
    EXPECT_NEAR(point.exposed_s, 0, 1e-12);
  }
  scaling.dist.shard_optimizer = false;
  EXPECT_NEAR(simulate_step(scaling, cluster, 64).step_s, 0.034, 1e-12);
}

// The first layer waits for all weights, and no gradient can leave before the
// last is there: nothing overlaps.
TEST(Scaling, one_bucket_overlaps_with_nothing) {
  const Cluster cluster = slow_cluster();
  for (const int ranks : {2, 4, 12}) {
    ScalingCase scaling = one_bucket();
    const Elements count = elements(scaling.model, ranks);
    const auto seconds = [&](double bytes) {
      return collective_seconds(cluster, ranks, bytes);
    };
    const double gather = seconds(2 * count.bf16) + seconds(4 * count.fp32);
    const double sum = seconds(4 * count.bf16) + seconds(4 * count.fp32);
    const double norm = seconds(0);
    ScalingPoint point = simulate_step(scaling, cluster, ranks);
    EXPECT_EQ(point.buckets, 2);
    EXPECT_NEAR(point.step_s, gather + 0.030 + sum + norm + 0.004 / ranks,
                1e-12);
    EXPECT_NEAR(point.communication_s, gather + sum + norm, 1e-12);
    EXPECT_NEAR(point.exposed_s, point.communication_s, 1e-12);

    scaling.dist.reduce_dtype = "bf16";
    const double half = seconds(2 * count.bf16) + seconds(4 * count.fp32);
    point = simulate_step(scaling, cluster, ranks);
    EXPECT_NEAR(point.communication_s, gather + half + norm, 1e-12);

    scaling.dist.reduce_dtype = "fp32";
    scaling.dist.shard_optimizer = false;
    point = simulate_step(scaling, cluster, ranks);
    EXPECT_NEAR(point.step_s, 0.034 + 2 * sum, 1e-12);
    scaling.micro_batches = 4;
    EXPECT_NEAR(simulate_step(scaling, cluster, ranks).step_s, 0.034 + 2 * sum,
                1e-12);
  }
}

// Buckets so fast that each is gone before the next fills: what is left is the
// weights of the embedding and first norm before the forward, and the last
// bucket, which holds the embedding's gradient, behind the backward.
TEST(Scaling, fast_buckets_leave_the_first_and_the_last) {
  Cluster cluster = slow_cluster();
  cluster.intra = {1e12, 0};
  cluster.launch_s = 0;
  ScalingCase scaling = small_case();
  scaling.dist.bucket_mb = 4 * 512 * 64 / 1e6;  // the embedding fills one
  scaling.dist.shard_optimizer = false;
  const ScalingPoint point = simulate_step(scaling, cluster, 2);
  EXPECT_GT(point.buckets, 4);
  const double embedding = 2 * collective_seconds(cluster, 2, 4 * 512 * 64);
  EXPECT_GE(point.exposed_s, embedding * (1 - 1e-9));
  // Beside it at most the bucket before, cut off by it, of the same size.
  EXPECT_LE(point.exposed_s, 3 * embedding);
  EXPECT_GT(point.communication_s, 5 * embedding);
}

TEST(Scaling, step_lies_between_perfect_and_no_overlap) {
  for (const bool sharded : {false, true}) {
    for (const double bucket : {0.01, 0.05, 0.3, 1000.0}) {
      for (const int ranks : {2, 4, 32, 256}) {
        ScalingCase scaling = small_case();
        scaling.dist.shard_optimizer = sharded;
        scaling.dist.bucket_mb = bucket;
        const ScalingPoint p = simulate_step(scaling, slow_cluster(), ranks);
        const double alone = 0.030 + 0.004 / (sharded ? ranks : 1);
        EXPECT_GE(p.step_s, alone - 1e-12);
        EXPECT_GE(p.step_s, p.communication_s - 1e-12);
        EXPECT_LE(p.step_s, alone + p.communication_s + 1e-12);
        EXPECT_NEAR(p.exposed_s, p.step_s - alone, 1e-12);
      }
    }
  }
}

TEST(Scaling, is_monotone_in_what_makes_it_slower) {
  const auto step = [](const ScalingCase& scaling, const Cluster& cluster,
                       int ranks) {
    return simulate_step(scaling, cluster, ranks).step_s;
  };
  const Cluster cluster = slow_cluster();
  const double before = step(small_case(), cluster, 32);
  Cluster slower = cluster;
  slower.intra.latency_s *= 3;
  EXPECT_GT(step(small_case(), slower, 32), before);
  slower = cluster;
  slower.inter.latency_s *= 3;
  EXPECT_GT(step(small_case(), slower, 32), before);
  slower = cluster;
  slower.inter.bytes_per_s /= 3;
  EXPECT_GT(step(small_case(), slower, 32), before);
  slower = cluster;
  slower.slowdown = 0.2;
  EXPECT_GT(step(small_case(), slower, 32), before);
  EXPECT_LT(step(small_case(), slower, 32), before / 0.8);
  ScalingCase half = small_case();
  half.dist.reduce_dtype = "bf16";
  EXPECT_LT(step(half, cluster, 32), before);
  double last = 0;
  ScalingCase whole = small_case();
  whole.dist.shard_optimizer = false;
  for (const int ranks : {1, 4, 8, 16, 64, 256, 1024}) {
    const double now = step(whole, cluster, ranks);
    EXPECT_GT(now, last) << ranks;
    last = now;
  }
}

TEST(Scaling, each_bucket_and_each_step_costs_what_is_said) {
  Cluster cluster = slow_cluster();
  cluster.intra = {kInfinite, 0};
  cluster.inter = {kInfinite, 0};
  cluster.launch_s = 0;
  cluster.stall_s = 1e-4;
  cluster.overhead_s = 3e-3;
  ScalingCase scaling = small_case();
  const double buckets = simulate_step(scaling, cluster, 4).buckets;
  EXPECT_GT(buckets, 3);
  // Its weights and its gradients.
  EXPECT_NEAR(simulate_step(scaling, cluster, 4).exposed_s,
              2 * buckets * 1e-4 + 3e-3, 1e-12);
  scaling.micro_batches = 4;
  EXPECT_NEAR(simulate_step(scaling, cluster, 4).exposed_s,
              2 * buckets * 1e-4 + 3e-3, 1e-12);
  scaling.dist.shard_optimizer = false;
  EXPECT_NEAR(simulate_step(scaling, cluster, 4).exposed_s,
              buckets * 1e-4 + 3e-3, 1e-12);
  EXPECT_NEAR(simulate_step(scaling, cluster, 1).exposed_s, 0, 1e-12);
}

TEST(Scaling, memory_falls_by_the_parts_of_the_others) {
  ScalingCase scaling = small_case();
  EXPECT_EQ(simulate_step(scaling, slow_cluster(), 4).memory_bytes, 0);
  scaling.memory_bytes = 1e9;
  double moments_and_masters = 0;
  for (const arch::Parameter& p : arch::parameter_table(scaling.model)) {
    moments_and_masters +=
        static_cast<double>(p.numel()) * (arch::computes_in_fp32(p) ? 8 : 12);
  }
  EXPECT_EQ(simulate_step(scaling, slow_cluster(), 1).memory_bytes, 1e9);
  EXPECT_DOUBLE_EQ(simulate_step(scaling, slow_cluster(), 4).memory_bytes,
                   1e9 - moments_and_masters * 3 / 4);
  scaling.dist.shard_optimizer = false;
  EXPECT_EQ(simulate_step(scaling, slow_cluster(), 4).memory_bytes, 1e9);
}

TEST(Scaling, a_tied_head_is_computed_and_sent_once) {
  ScalingCase scaling = one_bucket();
  scaling.model.tie_word_embeddings = true;
  scaling.dist.shard_optimizer = false;
  const double count = elements(scaling.model, 2).bf16;
  const ScalingPoint point = simulate_step(scaling, slow_cluster(), 2);
  EXPECT_NEAR(point.step_s - point.exposed_s, 0.034, 1e-12);
  EXPECT_GT(point.communication_s,
            2 * collective_seconds(slow_cluster(), 2, 4 * count));
}

}  // namespace
}  // namespace osdn::bench
