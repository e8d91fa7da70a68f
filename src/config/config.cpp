#include "osdn/config/config.h"

#include <algorithm>
#include <cmath>

#include "osdn/core/narrow.h"

namespace osdn::config {

namespace {

constexpr std::int64_t kSoftmaxHeadWidth = 64;  // unless heads are given

// A width that a ratio gives: whole, as int(h * ratio) of the published models.
std::int64_t scaled(std::int64_t width, double ratio) {
  return static_cast<std::int64_t>(
      std::floor(static_cast<double>(width) * ratio));
}

}  // namespace

bool ModelConfig::is_softmax(std::int64_t layer_index) const {
  return is_transformer() ||
         std::find(softmax.layers.begin(), softmax.layers.end(), layer_index) !=
             softmax.layers.end();
}

std::int64_t ModelConfig::softmax_layers() const {
  return is_transformer() ? num_layers : std::ssize(softmax.layers);
}

std::int64_t ModelConfig::softmax_heads() const {
  return softmax.num_heads.value_or(
      std::max<std::int64_t>(1, hidden_size / kSoftmaxHeadWidth));
}

std::int64_t ModelConfig::softmax_kv_heads() const {
  return softmax.num_kv_heads.value_or(softmax_heads());
}

std::int64_t ModelConfig::softmax_head_dim() const {
  return softmax.head_dim.value_or(hidden_size / softmax_heads());
}

std::int64_t ModelConfig::value_heads() const {
  return layer == LayerKind::kDeltaNet ? num_heads
                                       : num_v_heads.value_or(num_heads);
}

std::int64_t ModelConfig::key_width() const {
  switch (layer) {
    case LayerKind::kDeltaNet:
      return scaled(hidden_size, expand_k) / num_heads;
    case LayerKind::kGdn:
      return head_dim.value_or(256);
    case LayerKind::kKda:
      return head_dim.value_or(128);
    case LayerKind::kTransformer:
      break;
  }
  return 0;
}

std::int64_t ModelConfig::value_width() const {
  if (layer == LayerKind::kDeltaNet) {
    return scaled(hidden_size, expand_v_or_default()) / num_heads;
  }
  return scaled(key_width(), expand_v_or_default());
}

std::int64_t ModelConfig::mlp_width() const {
  if (intermediate_size) {
    return *intermediate_size;
  }
  const auto raw = static_cast<std::int64_t>(
      std::floor(static_cast<double>(hidden_size) * hidden_ratio * 2.0 / 3.0));
  return 256 * div_up<std::int64_t>(raw, 256);
}

bool ModelConfig::output_gate() const {
  switch (layer) {
    case LayerKind::kDeltaNet:
      return use_gate.value_or(false);
    case LayerKind::kGdn:
      return use_gate.value_or(true);
    case LayerKind::kKda:
      return true;
    case LayerKind::kTransformer:
      break;
  }
  return false;
}

double ModelConfig::expand_v_or_default() const {
  return expand_v.value_or(layer == LayerKind::kGdn ? 2.0 : 1.0);
}

}  // namespace osdn::config
