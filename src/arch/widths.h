#pragma once
// The widths of layers.md as floating-point numbers: products of them are
// compared with memory sizes and rates, not counted.

#include "osdn/config/config.h"

namespace osdn::arch {

struct Widths {
  explicit Widths(const config::ModelConfig& model)
      : h(static_cast<double>(model.hidden_size)),
        i(static_cast<double>(model.mlp_width())),
        vocab(static_cast<double>(model.vocab_size)),
        layers(static_cast<double>(model.num_layers - model.softmax_layers())),
        softmax_layers(static_cast<double>(model.softmax_layers())) {
    if (layers > 0) {
      hv = static_cast<double>(model.value_heads());
      k = static_cast<double>(model.key_width());
      v = static_cast<double>(model.value_width());
      kd = static_cast<double>(model.num_heads) * k;
      vd = hv * v;
    }
    if (softmax_layers > 0) {
      heads = static_cast<double>(model.softmax_heads());
      head_dim = static_cast<double>(model.softmax_head_dim());
    }
  }

  double h;
  double i;
  double vocab;
  double layers;  // with the delta rule
  double softmax_layers;
  double hv = 0;
  double k = 0;
  double v = 0;
  double kd = 0;
  double vd = 0;
  double heads = 0;  // of the softmax
  double head_dim = 0;
};

}  // namespace osdn::arch
