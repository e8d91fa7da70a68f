#include "osdn/arch/estimate.h"

#include <gtest/gtest.h>

#include "osdn/arch/parameter_table.h"

namespace osdn::arch {
namespace {

using config::LayerKind;
using config::ModelConfig;
using config::Retention;

ModelConfig small(LayerKind layer) {
  ModelConfig model;
  model.layer = layer;
  model.vocab_size = 50;
  model.hidden_size = 32;
  model.num_layers = 3;
  model.num_heads = 2;
  if (layer != LayerKind::kDeltaNet) {
    model.head_dim = 16;
    model.num_v_heads = 4;
  }
  model.intermediate_size = 40;
  return model;
}

TEST(Estimate, O2_flops_by_hand) {
  const Flops flops = flops_per_token(small(LayerKind::kDeltaNet), 64);
  // q, k, v, o: 4 x 32 x 32; beta 2 x 32; SwiGLU 3 x 32 x 40; head 50 x 32.
  EXPECT_DOUBLE_EQ(flops.matrices,
                   6.0 * (3 * (4 * 1024 + 64 + 3 * 1280) + 1600));
  EXPECT_DOUBLE_EQ(flops.recurrence, 3.0 * 3 * 6 * 2 * 16 * 16);
  EXPECT_DOUBLE_EQ(flops.convolution, 3.0 * 3 * 2 * 4 * (3 * 32));
  EXPECT_EQ(flops.preconditioner, 0);
}

TEST(Estimate, O2_flops_of_gated_and_preconditioned_layers) {
  ModelConfig gdn = small(LayerKind::kGdn);
  EXPECT_DOUBLE_EQ(flops_per_token(gdn, 64).recurrence,
                   3.0 * 3 * 7 * 4 * 16 * 32);
  gdn.preconditioner.enabled = true;
  EXPECT_DOUBLE_EQ(flops_per_token(gdn, 64).preconditioner,
                   3.0 * 3 * 8 * 4 * 16);
  // The retention gate is a matrix; d0 multiplies nothing.
  const double plain = flops_per_token(gdn, 64).matrices;
  gdn.preconditioner.retention = Retention::kDataDependent;
  EXPECT_DOUBLE_EQ(flops_per_token(gdn, 64).matrices - plain, 6.0 * 3 * 4 * 32);
  EXPECT_DOUBLE_EQ(flops_per_token(small(LayerKind::kKda), 64).recurrence,
                   3.0 * 3 * 7 * 4 * 16 * 16);
}

TEST(Estimate, O2_a_tied_head_still_multiplies) {
  ModelConfig model = small(LayerKind::kDeltaNet);
  const double untied = flops_per_token(model, 64).matrices;
  model.tie_word_embeddings = true;
  EXPECT_DOUBLE_EQ(flops_per_token(model, 64).matrices, untied);
}

TEST(Estimate, O2_published_model_is_near_six_flops_a_weight) {
  const ModelConfig model;  // DeltaNet 340M
  const double weights = 374362112.0 - 32000.0 * 1024;
  const double ratio = flops_per_token(model, 64).total() / (6 * weights);
  EXPECT_GT(ratio, 1.0);
  EXPECT_LT(ratio, 1.05);
}

TEST(Estimate, memory_of_parameters_is_exact) {
  const ModelConfig model = small(LayerKind::kKda);
  const auto table = parameter_table(model);
  const auto all = static_cast<double>(count_parameters(table).total);
  double fp32 = 0;
  for (const Parameter& parameter : table) {
    fp32 += parameter.keep_fp32 ? static_cast<double>(parameter.numel()) : 0;
  }
  const Memory single = estimate_memory(model, Compute::kF32, 64);
  EXPECT_EQ(single.weights, 4 * all);
  EXPECT_EQ(single.gradients, 4 * all);
  EXPECT_EQ(single.optimizer, 8 * all);
  const Memory half = estimate_memory(model, Compute::kBF16, 64);
  EXPECT_EQ(half.weights, 4 * all + 2 * (all - fp32));
  EXPECT_EQ(half.optimizer, 8 * all);
  const Memory twice = estimate_memory(model, Compute::kF64, 64);
  EXPECT_EQ(twice.weights, 8 * all);
  EXPECT_EQ(twice.total(), twice.weights + twice.gradients + twice.optimizer +
                               twice.activations);
}

// train::Replica: each rank has its part of moments and masters, and buckets of
// all gradients.
TEST(Estimate, memory_of_a_rank_is_exact) {
  const ModelConfig model = small(LayerKind::kKda);
  double all = 0;
  double fp32 = 0;
  for (const Parameter& parameter : parameter_table(model)) {
    const auto count = static_cast<double>(parameter.numel());
    all += count;
    fp32 += parameter.keep_fp32 ? count : 0;
  }
  ASSERT_GT(fp32, 0);
  config::DistConfig dist;
  dist.shard_optimizer = true;
  const auto of_rank = [&](Compute compute) {
    return estimate_rank_memory(model, dist, compute, 64, 4);
  };
  Memory half = of_rank(Compute::kBF16);
  EXPECT_DOUBLE_EQ(half.optimizer, 2 * all);
  EXPECT_DOUBLE_EQ(half.weights, 4 * fp32 + (2 + 1) * (all - fp32));
  EXPECT_DOUBLE_EQ(half.buckets, 4 * all);
  EXPECT_EQ(half.activations,
            estimate_memory(model, Compute::kBF16, 64).activations);
  EXPECT_DOUBLE_EQ(of_rank(Compute::kF32).weights, 4 * all);
  EXPECT_DOUBLE_EQ(of_rank(Compute::kF64).buckets, 8 * all);
  dist.reduce_dtype = "bf16";
  EXPECT_DOUBLE_EQ(of_rank(Compute::kBF16).buckets,
                   2 * (all - fp32) + 4 * fp32);
  EXPECT_DOUBLE_EQ(of_rank(Compute::kF32).buckets, 2 * all);
  dist.shard_optimizer = false;
  half = of_rank(Compute::kBF16);
  const Memory alone = estimate_memory(model, Compute::kBF16, 64);
  EXPECT_EQ(half.optimizer, alone.optimizer);
  EXPECT_EQ(half.weights, alone.weights);
  EXPECT_DOUBLE_EQ(half.total(), alone.total() + half.buckets);
}

TEST(Estimate, activations_follow_the_formula) {
  ModelConfig model = small(LayerKind::kDeltaNet);
  const double computed = 4 * 32 + 4 * (3 * 32) + 2 * 32 + 4 * 40;
  const double kept = 2 + 2 * 16 * 16 / 64.0;
  EXPECT_DOUBLE_EQ(estimate_memory(model, Compute::kF32, 100).activations,
                   100 * ((3 * computed + 2 * 32) * 4 + 3 * kept * 4));
  EXPECT_DOUBLE_EQ(estimate_memory(model, Compute::kBF16, 100).activations,
                   100 * ((3 * computed + 2 * 32) * 2 + 3 * kept * 4));
  // The preconditioner: write key, d, and r with a gate of its own.
  const double plain = estimate_memory(model, Compute::kF32, 1).activations;
  model.preconditioner.enabled = true;
  const double osdn = estimate_memory(model, Compute::kF32, 1).activations;
  EXPECT_DOUBLE_EQ(osdn - plain, 3 * 2 * 32 * 4);
  model.preconditioner.retention = Retention::kDataDependent;
  EXPECT_DOUBLE_EQ(estimate_memory(model, Compute::kF32, 1).activations - osdn,
                   3 * 2 * 4);
}

// Two inputs of each block and all of one are kept.
TEST(Estimate, activations_of_recomputed_blocks) {
  const ModelConfig model = small(LayerKind::kDeltaNet);
  const double computed = 4 * 32 + 4 * (3 * 32) + 2 * 32 + 4 * 40;
  const double kept = 2 + 2 * 16 * 16 / 64.0;
  EXPECT_DOUBLE_EQ(
      estimate_memory(model, Compute::kBF16, 100, true).activations,
      100 * ((3 * 2 * 32 + computed + 2 * 32) * 2 + kept * 4));
  config::DistConfig dist;
  EXPECT_EQ(estimate_rank_memory(model, dist, Compute::kBF16, 100, 2, true)
                .activations,
            estimate_memory(model, Compute::kBF16, 100, true).activations);
}

TEST(Estimate, activations_of_the_gates) {
  const auto per_token = [](const ModelConfig& model) {
    return estimate_memory(model, Compute::kF32, 1).activations;
  };
  ModelConfig gated = small(LayerKind::kDeltaNet);
  const double plain = per_token(gated);
  gated.use_gate = true;
  EXPECT_DOUBLE_EQ(per_token(gated) - plain, 3 * 2 * 32 * 4);
  // KDA's decay is per channel, GDN's per head; their other terms are equal
  // here, apart from the wider value heads of GDN.
  ModelConfig gdn = small(LayerKind::kGdn);
  gdn.expand_v = 1.0;
  EXPECT_DOUBLE_EQ(per_token(small(LayerKind::kKda)) - per_token(gdn),
                   3 * (4 * 16 - 4) * 4);
}

ModelConfig small_transformer() {
  ModelConfig model = small(LayerKind::kDeltaNet);
  model.layer = LayerKind::kTransformer;
  model.softmax.num_heads = 4;
  model.softmax.num_kv_heads = 2;
  model.softmax.head_dim = 6;
  return model;
}

TEST(Estimate, O2_flops_of_softmax_by_hand) {
  const ModelConfig model = small_transformer();
  const Flops flops = flops_per_token(model, 99);
  // q and o: 32 x 24; k and v: 32 x 12; SwiGLU 3 x 32 x 40; head 50 x 32.
  EXPECT_DOUBLE_EQ(flops.matrices,
                   6.0 * (3 * (2 * 32 * 24 + 2 * 32 * 12 + 3 * 1280) + 1600));
  // A token sees 50 keys on average: a product with each and one to add it up.
  EXPECT_DOUBLE_EQ(flops.softmax, 3.0 * 3 * 4 * 50 * 4 * 6);
  EXPECT_EQ(flops.recurrence + flops.convolution + flops.preconditioner, 0);
  EXPECT_GT(flops_per_token(model, 100).softmax, flops.softmax);
}

TEST(Estimate, a_hybrid_is_the_sum_of_its_layers) {
  const ModelConfig delta = small(LayerKind::kKda);
  ModelConfig softmax = small_transformer();
  ModelConfig hybrid = delta;
  hybrid.softmax = softmax.softmax;
  hybrid.softmax.layers = {0, 2};
  const auto share = [](double plain, double all) {
    return plain / 3 + all * 2 / 3;
  };
  const Flops a = flops_per_token(delta, 64), b = flops_per_token(softmax, 64);
  const Flops both = flops_per_token(hybrid, 64);
  EXPECT_NEAR(both.total(), share(a.total(), b.total()), 1e-6);
  EXPECT_DOUBLE_EQ(both.recurrence, share(a.recurrence, 0));
  EXPECT_DOUBLE_EQ(both.softmax, share(0, b.softmax));
  for (const Compute compute : {Compute::kF32, Compute::kBF16}) {
    const Memory m = estimate_memory(delta, compute, 64);
    const Memory n = estimate_memory(softmax, compute, 64);
    EXPECT_NEAR(estimate_memory(hybrid, compute, 64).activations,
                share(m.activations, n.activations), 1e-6);
  }
}

TEST(Estimate, activations_of_softmax_layers) {
  ModelConfig model = small_transformer();
  const auto computed = [](double H, double G) {
    return 4 * 32 + (2 * (H + G) + G) * 6 + (H > G ? 2 * H * 6 : 0) + 6 +
           H * 6 + 4 * 40;
  };
  EXPECT_DOUBLE_EQ(estimate_memory(model, Compute::kBF16, 100).activations,
                   100 * ((3 * computed(4, 2) + 2 * 32) * 2 + 3 * 4 * 4));
  model.softmax.num_kv_heads = 4;
  EXPECT_DOUBLE_EQ(estimate_memory(model, Compute::kBF16, 100).activations,
                   100 * ((3 * computed(4, 4) + 2 * 32) * 2 + 3 * 4 * 4));
}

TEST(Estimate, names) {
  EXPECT_EQ(name_of(Compute::kF32), "fp32");
  EXPECT_EQ(name_of(Compute::kF64), "fp64");
  EXPECT_EQ(name_of(Compute::kBF16), "bf16");
}

}  // namespace
}  // namespace osdn::arch
