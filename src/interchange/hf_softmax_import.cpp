#include "hf_softmax_import.h"

#include <algorithm>
#include <string>
#include <vector>

#include "osdn/core/concat.h"

namespace osdn::interchange {

namespace {

using config::ModelConfig;
using config::SoftmaxConfig;

constexpr double kPublicTheta = 10000.0;

void read_rope_type(HfKeys& rope) {
  for (const char* key : {"rope_type", "type"}) {
    if (rope.text(key, "default") != "default") {
      rope.wrong(key, "\"default\": scaled rotary positions are not supported");
    }
  }
}

// Where the base of the rotary positions stands has changed: at the top with
// rope_scaling beside it, later in rope_parameters.
double read_rope(HfKeys& keys) {
  const double theta = keys.number("rope_theta", kPublicTheta, 1);
  if (auto scaling = keys.object("rope_scaling")) {
    read_rope_type(*scaling);
    for (const std::string& key : scaling->unseen()) keys.warn_unknown(key);
  }
  auto rope = keys.object("rope_parameters");
  if (!rope) return theta;
  read_rope_type(*rope);
  const double inner = rope->number("rope_theta", theta, 1);
  if (keys.has("rope_theta") && inner != theta) {
    rope->wrong("rope_theta",
                concat(theta, ", which rope_theta at the top says"));
  }
  if (rope->number("partial_rotary_factor", 1, 0) != 1) {
    rope->wrong("partial_rotary_factor", "1: all channels are turned");
  }
  for (const std::string& key : rope->unseen()) keys.warn_unknown(key);
  return inner;
}

}  // namespace

void read_llama(HfKeys& keys, ModelConfig& model) {
  model.vocab_size = keys.integer("vocab_size", 32000, 1);
  model.hidden_size = keys.integer("hidden_size", 4096, 1);
  model.intermediate_size = keys.integer("intermediate_size", 11008, 1);
  model.num_layers = keys.integer("num_hidden_layers", 32, 1);
  model.norm_eps = keys.number("rms_norm_eps", 1e-6, 0);
  model.initializer_range = keys.number("initializer_range", 0.02, 0);
  model.tie_word_embeddings = keys.boolean("tie_word_embeddings", false);
  SoftmaxConfig& softmax = model.softmax;
  softmax.num_heads = keys.integer("num_attention_heads", 32, 1);
  softmax.num_kv_heads = keys.optional_integer("num_key_value_heads", 1);
  softmax.head_dim = keys.optional_integer("head_dim", 1);
  softmax.rope_theta = read_rope(keys);
  const std::string activation = keys.text("hidden_act", "silu");
  if (activation != "swish" && activation != "silu") {
    keys.wrong("hidden_act", "\"silu\" or \"swish\"");
  }
  keys.must_be_off("attention_bias", "the projections have no bias");
  keys.must_be_off("mlp_bias", "the projections have no bias");
  keys.must_be_off("quantization_config",
                   "quantised weights are not supported");
  if (keys.number("attention_dropout", 0, 0) != 0) {
    keys.warn(
        "attention_dropout is not 0; training would drop attention there, "
        "osdn does not");
  }
  keys.ignore("pretraining_tp");  // how a product is cut, not what it is
}

void read_hybrid(HfKeys& keys, ModelConfig& model) {
  auto attn = keys.object("attn");
  if (!attn) return;
  SoftmaxConfig& softmax = model.softmax;
  // The public classes look an index up in the list: order and repetition mean
  // nothing to them, and an index beyond the last layer is never found.
  std::vector<std::int64_t> layers = attn->integers("layers");
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  for (const std::int64_t layer : layers) {
    if (layer >= 0 && layer < model.num_layers) {
      softmax.layers.push_back(layer);
    } else {
      keys.warn(concat("attn.layers names layer ", layer,
                       ", which is not one of 0 to ", model.num_layers - 1,
                       " and has no effect"));
    }
  }
  if (!attn->has("num_heads")) {
    attn->wrong("num_heads", "an integer from 1 on");
  }
  const std::int64_t heads = attn->integer("num_heads", 1, 1);
  const auto kv_heads = attn->optional_integer("num_kv_heads", 1);
  const double theta = attn->number("rope_theta", kPublicTheta, 1);
  attn->must_be_off("window_size",
                    "attention within a window is not supported");
  attn->must_be_off("qkv_bias", "the projections have no bias");
  for (const std::string& key : attn->unseen()) keys.warn_unknown(key);
  if (softmax.layers.empty()) return;
  softmax.num_heads = heads;
  softmax.num_kv_heads = kv_heads;
  softmax.rope_theta = theta;
}

void read_token_ids(HfKeys& keys, ModelConfig& model) {
  const auto read = [&](const std::string& key, std::int64_t initial) {
    if (!keys.has(key)) return initial;
    if (keys.is_list(key)) {
      const std::vector<std::int64_t> all = keys.integers(key);
      if (all.empty()) return std::int64_t{-1};
      if (all.size() > 1) {
        keys.warn(concat(key, " is ", keys.found(key), ", of which osdn keeps ",
                         "the first"));
      }
      return all.front();
    }
    return keys.optional_integer(key, -1).value_or(-1);
  };
  model.token_ids.bos = read("bos_token_id", 1);
  model.token_ids.eos = read("eos_token_id", 2);
  model.token_ids.pad = read("pad_token_id", -1);
}

}  // namespace osdn::interchange
