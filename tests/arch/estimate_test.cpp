#include "osdn/arch/estimate.h"

#include <gtest/gtest.h>

#include "arch/small_model.h"
#include "osdn/arch/parameter_table.h"

namespace osdn::arch {
namespace {

using config::LayerKind;
using config::ModelConfig;
using config::Retention;

TEST(Estimate, O2_flops_by_hand) {
  const Flops flops =
      flops_per_token(test::small_model(LayerKind::kDeltaNet), 64);
  // q, k, v, o: 4 x 32 x 32; beta 2 x 32; SwiGLU 3 x 32 x 40; head 50 x 32.
  EXPECT_DOUBLE_EQ(flops.matrices,
                   6.0 * (3 * (4 * 1024 + 64 + 3 * 1280) + 1600));
  EXPECT_DOUBLE_EQ(flops.recurrence, 3.0 * 3 * 6 * 2 * 16 * 16);
  EXPECT_DOUBLE_EQ(flops.convolution, 3.0 * 3 * 2 * 4 * (3 * 32));
  EXPECT_EQ(flops.preconditioner, 0);
}

TEST(Estimate, O2_flops_of_gated_and_preconditioned_layers) {
  ModelConfig gdn = test::small_model(LayerKind::kGdn);
  EXPECT_DOUBLE_EQ(flops_per_token(gdn, 64).recurrence,
                   3.0 * 3 * 7 * 4 * 16 * 32);
  gdn.preconditioner.enabled = true;
  EXPECT_DOUBLE_EQ(flops_per_token(gdn, 64).preconditioner,
                   3.0 * 3 * 8 * 4 * 16);
  // The retention gate is a matrix; d0 multiplies nothing.
  const double plain = flops_per_token(gdn, 64).matrices;
  gdn.preconditioner.retention = Retention::kDataDependent;
  EXPECT_DOUBLE_EQ(flops_per_token(gdn, 64).matrices - plain, 6.0 * 3 * 4 * 32);
  EXPECT_DOUBLE_EQ(
      flops_per_token(test::small_model(LayerKind::kKda), 64).recurrence,
      3.0 * 3 * 7 * 4 * 16 * 16);
}

TEST(Estimate, O2_a_tied_head_still_multiplies) {
  ModelConfig model = test::small_model(LayerKind::kDeltaNet);
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

ModelConfig small_transformer() {
  ModelConfig model = test::small_model(LayerKind::kDeltaNet);
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

TEST(Estimate, O2_flops_of_a_hybrid_are_those_of_its_layers) {
  const ModelConfig delta = test::small_model(LayerKind::kKda);
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
}

}  // namespace
}  // namespace osdn::arch
