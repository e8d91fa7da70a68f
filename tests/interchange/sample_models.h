#pragma once
// Small models of every kind that can be exchanged, and weights for them.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "osdn/arch/parameter_table.h"
#include "osdn/config/reader.h"
#include "osdn/core/hash.h"
#include "osdn/core/random.h"
#include "osdn/core/tensor_view.h"

namespace osdn::interchange::test {

inline config::ModelConfig sample(config::LayerKind layer) {
  config::ModelConfig model;
  model.layer = layer;
  model.vocab_size = 40;
  model.hidden_size = 32;
  model.num_layers = 2;
  model.num_heads = 2;
  model.intermediate_size = 48;
  model.initializer_range = 0.3;
  model.expand_v = 1;
  if (layer == config::LayerKind::kDeltaNet) {
    model.use_gate = false;
  } else if (layer != config::LayerKind::kTransformer) {
    model.head_dim = 8;
    model.num_v_heads = 2;
    if (layer == config::LayerKind::kGdn) model.use_gate = true;
  }
  return model;
}

inline config::ModelConfig scaled(config::LayerKind layer,
                                  config::Retention retention) {
  config::ModelConfig model = sample(layer);
  model.preconditioner.enabled = true;
  model.preconditioner.eta = 0.3;
  model.preconditioner.retention = retention;
  return model;
}

/// The softmax reference, and a hybrid of every model that there is.
inline void add_softmax_models(
    std::map<std::string, config::ModelConfig>& all) {
  const std::map<std::string, config::ModelConfig> plain = all;
  for (auto [name, model] : plain) {
    model.softmax.layers = {1};
    model.softmax.num_heads = 4;
    model.softmax.num_kv_heads = 2;
    model.softmax.rope_theta = 5000;
    all[name + " hybrid"] = model;
  }
  config::ModelConfig llama = sample(config::LayerKind::kTransformer);
  llama.softmax.num_heads = 4;
  llama.softmax.num_kv_heads = 2;
  all["llama"] = llama;
  llama.softmax.head_dim = 6;
  llama.softmax.rope_theta = 500000.5;
  llama.tie_word_embeddings = true;
  llama.token_ids = {-1, 7, 0};
  all["llama options"] = llama;
}

/// By the name of what it is written as, or of what sets it apart.
inline std::map<std::string, config::ModelConfig> sample_models() {
  using config::LayerKind;
  using config::Retention;
  std::map<std::string, config::ModelConfig> all;
  all["delta_net"] = sample(LayerKind::kDeltaNet);
  all["gated_deltanet"] = sample(LayerKind::kGdn);
  all["kda"] = sample(LayerKind::kKda);
  all["osdn_delta_net"] = scaled(LayerKind::kDeltaNet, Retention::kNone);
  all["osla_delta_net"] = all["osdn_delta_net"];
  all["osla_delta_net"].preconditioner.beta_aware = false;
  all["osla_delta_net"].preconditioner.norm = config::KeyNorm::kOff;
  all["os_gated_deltanet"] = scaled(LayerKind::kGdn, Retention::kNone);
  all["os_kda"] = scaled(LayerKind::kKda, Retention::kNone);
  for (const char* name :
       {"osdn_delta_net", "osla_delta_net", "os_gated_deltanet", "os_kda"}) {
    const std::string label(name);
    all[label + " apf"] = all[label];
    all[label + " apf"].preconditioner.retention = Retention::kDataDependent;
    all[label + " constant"] = all[label];
    all[label + " constant"].preconditioner.retention = Retention::kConstant;
    all[label + " constant"].preconditioner.retention_value = 0.875;
    if (label != "os_kda") {
      all[label + " per head"] = all[label];
      all[label + " per head"].preconditioner.retention = Retention::kPerHead;
    }
  }
  all["os_gated_deltanet tied"] = scaled(LayerKind::kGdn, Retention::kTied);

  config::ModelConfig options = sample(LayerKind::kDeltaNet);
  options.use_gate = true;
  options.use_beta = false;
  options.expand_k = 0.5;
  options.qk_norm = config::QkNorm::kSum;
  options.qk_activation = config::QkActivation::kElu;
  options.tie_word_embeddings = true;
  options.allow_neg_eigval = true;
  options.intermediate_size.reset();
  all["delta_net options"] = options;
  config::ModelConfig grouped = sample(LayerKind::kKda);
  grouped.num_v_heads = 4;
  grouped.expand_v = 1.5;
  grouped.safe_gate = true;
  grouped.lower_bound = -4.5;
  all["kda grouped"] = grouped;
  config::ModelConfig bare = sample(LayerKind::kGdn);
  bare.num_v_heads = 6;
  bare.use_gate = false;
  bare.use_short_conv = false;
  all["gated_deltanet bare"] = bare;
  add_softmax_models(all);
  return all;
}

/// Every key of the model that has an effect, for comparisons. What training
/// alone reads does not travel.
inline std::string described(config::ModelConfig model) {
  model.preconditioner.retention_bias = 6.9;
  config::Config whole;
  whole.model = model;
  return config::to_json(whole);
}

/// Weights with the names of the parameter table, in F32.
class SampleWeights {
 public:
  explicit SampleWeights(const config::ModelConfig& model,
                         std::uint64_t seed = 1) {
    for (const arch::Parameter& parameter : arch::parameter_table(model)) {
      add(parameter.name, parameter.shape, seed);
    }
  }
  void add(const std::string& name, const std::vector<std::int64_t>& shape,
           std::uint64_t seed = 1) {
    Xoshiro256 random(derive_seed(seed, xxh3_64(name)));
    std::int64_t n = 1;
    for (const std::int64_t size : shape) n *= size;
    std::vector<float>& values = values_[name];
    values.clear();
    for (std::int64_t i = 0; i < n; ++i) {
      values.push_back(static_cast<float>(0.3 * random.normal()));
    }
    shapes_[name] = shape;
  }
  void remove(const std::string& name) {
    values_.erase(name);
    shapes_.erase(name);
  }
  std::vector<float>& values(const std::string& name) {
    return values_.at(name);
  }
  std::vector<TensorView> views() {
    std::vector<TensorView> all;
    for (auto& [name, values] : values_) {
      all.push_back({name, DType::kF32, shapes_.at(name), values.data()});
    }
    return all;
  }

 private:
  std::map<std::string, std::vector<float>> values_;
  std::map<std::string, std::vector<std::int64_t>> shapes_;
};

}  // namespace osdn::interchange::test
