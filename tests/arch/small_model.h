#pragma once
// A model whose memory and arithmetic can be counted by hand.

#include "osdn/config/config.h"

namespace osdn::test {

inline config::ModelConfig small_model(config::LayerKind layer) {
  config::ModelConfig model;
  model.layer = layer;
  model.vocab_size = 50;
  model.hidden_size = 32;
  model.num_layers = 3;
  model.num_heads = 2;
  if (layer != config::LayerKind::kDeltaNet) {
    model.head_dim = 16;
    model.num_v_heads = 4;
  }
  model.intermediate_size = 40;
  return model;
}

}  // namespace osdn::test
