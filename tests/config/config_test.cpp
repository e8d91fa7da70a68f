#include "osdn/config/config.h"

#include <gtest/gtest.h>

namespace osdn::config {
namespace {

TEST(ModelConfig, deltanet_widths) {
  ModelConfig model;
  EXPECT_EQ(model.key_width(), 128);
  EXPECT_EQ(model.value_width(), 128);
  EXPECT_EQ(model.value_heads(), 8);
  model.expand_k = 0.5;
  model.expand_v = 2.0;
  EXPECT_EQ(model.key_width(), 64);
  EXPECT_EQ(model.value_width(), 256);
}

TEST(ModelConfig, gdn_and_kda_widths) {
  ModelConfig model;
  model.layer = LayerKind::kGdn;
  model.num_heads = 6;
  EXPECT_EQ(model.key_width(), 256);
  EXPECT_EQ(model.value_width(), 512);
  EXPECT_EQ(model.value_heads(), 6);
  model.num_v_heads = 12;
  EXPECT_EQ(model.value_heads(), 12);
  model.layer = LayerKind::kKda;
  EXPECT_EQ(model.key_width(), 128);
  EXPECT_EQ(model.value_width(), 128);
  model.head_dim = 64;
  model.expand_v = 1.5;
  EXPECT_EQ(model.value_width(), 96);
}

TEST(ModelConfig, mlp_width_of_the_published_sizes) {
  ModelConfig model;
  EXPECT_EQ(model.mlp_width(), 2816);
  model.hidden_size = 2048;
  EXPECT_EQ(model.mlp_width(), 5632);
  model.hidden_size = 96;  // 2/3 x 96 x 4 = 256 exactly: not rounded further
  EXPECT_EQ(model.mlp_width(), 256);
  model.intermediate_size = 700;
  EXPECT_EQ(model.mlp_width(), 700);
}

TEST(ModelConfig, output_gate_defaults) {
  ModelConfig model;
  EXPECT_FALSE(model.output_gate());
  model.layer = LayerKind::kGdn;
  EXPECT_TRUE(model.output_gate());
  model.use_gate = false;
  EXPECT_FALSE(model.output_gate());
  model.layer = LayerKind::kKda;
  EXPECT_TRUE(model.output_gate());
}

}  // namespace
}  // namespace osdn::config
