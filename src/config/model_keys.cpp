#include "model_keys.h"

#include <string>
#include <string_view>

#include "key_row.h"

namespace osdn::config {

namespace {

bool is_deltanet(const Config& config) {
  return config.model.layer == LayerKind::kDeltaNet;
}
bool is_kda(const Config& config) {
  return config.model.layer == LayerKind::kKda;
}
bool has_head_dim(const Config& config) {
  return config.model.layer == LayerKind::kGdn || is_kda(config);
}
bool has_delta_rule(const Config& config) {
  return !config.model.is_transformer();
}
bool has_softmax(const Config& config) {
  return config.model.softmax_layers() > 0;
}

constexpr std::string_view kOnlyDeltaNet = "model.layer is \"deltanet\"";
constexpr std::string_view kOnlyHeadDim = "model.layer is \"gdn\" or \"kda\"";
constexpr std::string_view kOnlyKda = "model.layer is \"kda\"";
constexpr std::string_view kOnlyDeltaRule =
    "model.layer is not \"transformer\"";
constexpr std::string_view kOnlySoftmax =
    "model.layer is \"transformer\" or model.softmax.layers names some";

void add_model(std::vector<Key>& keys) {
  const std::string deltanet(kOnlyDeltaNet);
  const std::string head_dim(kOnlyHeadDim);
  const std::string kda(kOnlyKda);
  const std::string delta_rule(kOnlyDeltaRule);
  keys.push_back(
      Row("model.layer", OSDN_MEMBER(model.layer),
          "The attention layer: DeltaNet, Gated DeltaNet, Kimi Delta "
          "Attention, or softmax attention in the form of Llama.")
          .choices({"deltanet", "gdn", "kda", "transformer"})
          .also({"type", "model_type", "architecture", "attention"}));
  keys.push_back(Row("model.vocab_size", OSDN_MEMBER(model.vocab_size),
                     "Rows of the embedding; at least the tokenizer's size.")
                     .from(1)
                     .to(1 << 30));
  keys.push_back(Row("model.hidden_size", OSDN_MEMBER(model.hidden_size),
                     "Width h of the residual stream.")
                     .from(1)
                     .to(1 << 20)
                     .also({"d_model", "dim", "n_embd", "embed_dim"}));
  keys.push_back(
      Row("model.num_layers", OSDN_MEMBER(model.num_layers), "Blocks L.")
          .from(1)
          .to(1024)
          .also({"num_hidden_layers", "n_layers", "depth"}));
  keys.push_back(Row("model.num_heads", OSDN_MEMBER(model.num_heads),
                     "Query and key heads H of the delta rule.")
                     .from(1)
                     .to(4096)
                     .only(delta_rule, has_delta_rule)
                     .also({"n_heads", "num_attention_heads"}));
  keys.push_back(
      Row("model.num_v_heads", OSDN_MEMBER(model.num_v_heads),
          "Value heads HV, a multiple of num_heads; neighbours share "
          "a key head.")
          .from(1)
          .to(4096)
          .default_is("num_heads")
          .only(head_dim, has_head_dim)
          .resolves([](const Config& config) -> Value {
            return config.model.value_heads();
          })
          .also({"num_value_heads"}));
  keys.push_back(Row("model.head_dim", OSDN_MEMBER(model.head_dim),
                     "Width K of a key head.")
                     .from(1)
                     .to(4096)
                     .default_is("256 for gdn, 128 for kda")
                     .only(head_dim, has_head_dim)
                     .resolves([](const Config& config) -> Value {
                       return config.model.key_width();
                     }));
  keys.push_back(Row("model.expand_k", OSDN_MEMBER(model.expand_k),
                     "All key heads together are hidden_size times this wide.")
                     .above(0)
                     .to(16)
                     .only(deltanet, is_deltanet));
  keys.push_back(Row("model.expand_v", OSDN_MEMBER(model.expand_v),
                     "DeltaNet: all value heads together are hidden_size times "
                     "this wide. Others: a value head is head_dim times this "
                     "wide.")
                     .above(0)
                     .to(16)
                     .default_is("1 for deltanet, 2 for gdn, 1 for kda")
                     .only(delta_rule, has_delta_rule)
                     .resolves([](const Config& config) -> Value {
                       return config.model.expand_v_or_default();
                     }));
  keys.push_back(Row("model.intermediate_size",
                     OSDN_MEMBER(model.intermediate_size),
                     "Width of the SwiGLU.")
                     .from(1)
                     .to(1 << 24)
                     .default_is("from hidden_ratio")
                     .also({"ffn_dim", "d_ff", "mlp_dim", "ffn_hidden_size"}));
  keys.push_back(
      Row("model.hidden_ratio", OSDN_MEMBER(model.hidden_ratio),
          "The SwiGLU is 2/3 hidden_size times this wide, rounded up "
          "to a multiple of 256.")
          .above(0)
          .to(64)
          .only("model.intermediate_size is not given",
                [](const Config& config) {
                  return !config.model.intermediate_size.has_value();
                }));
  keys.push_back(Row("model.use_short_conv", OSDN_MEMBER(model.use_short_conv),
                     "Causal convolutions after the q, k and v projections.")
                     .only(delta_rule, has_delta_rule));
  keys.push_back(Row("model.conv_size", OSDN_MEMBER(model.conv_size),
                     "Taps of those convolutions.")
                     .from(1)
                     .to(64)
                     .only("model.use_short_conv is true and "
                           "model.layer is not \"transformer\"",
                           [](const Config& config) {
                             return config.model.use_short_conv &&
                                    has_delta_rule(config);
                           })
                     .also({"d_conv", "kernel_size"}));
  keys.push_back(Row("model.use_beta", OSDN_MEMBER(model.use_beta),
                     "A learned write strength beta; false: beta = 1.")
                     .only(deltanet, is_deltanet));
  keys.push_back(Row("model.use_gate", OSDN_MEMBER(model.use_gate),
                     "A gate on the output norm. KDA always has one.")
                     .default_is("false for deltanet, true for gdn")
                     .only("model.layer is \"deltanet\" or \"gdn\"",
                           [](const Config& config) {
                             return has_delta_rule(config) && !is_kda(config);
                           })
                     .resolves([](const Config& config) -> Value {
                       return config.model.output_gate();
                     }));
  keys.push_back(Row("model.allow_neg_eigval",
                     OSDN_MEMBER(model.allow_neg_eigval),
                     "Doubles beta, so that it lies in (0, 2).")
                     .only(delta_rule, has_delta_rule));
  keys.push_back(Row("model.qk_activation", OSDN_MEMBER(model.qk_activation),
                     "After the convolutions of q and k.")
                     .choices({"silu", "relu", "elu", "identity"})
                     .only(deltanet, is_deltanet));
  keys.push_back(Row("model.qk_norm", OSDN_MEMBER(model.qk_norm),
                     "Per head: unit length, or divided by the sum.")
                     .choices({"l2", "sum"})
                     .only(deltanet, is_deltanet));
  keys.push_back(Row("model.safe_gate", OSDN_MEMBER(model.safe_gate),
                     "Decay bounded closely enough for fast kernels; needs "
                     "lower_bound from -5 to below 0, and A_log starts at 0.")
                     .only(kda, is_kda));
  keys.push_back(Row("model.lower_bound", OSDN_MEMBER(model.lower_bound),
                     "Bound B of the log decay: g = B sigmoid(...) lies in "
                     "(B, 0).")
                     .from(-1000)
                     .below(0)
                     .default_is("none: not bounded")
                     .only(kda, is_kda));
  keys.push_back(Row("model.norm_eps", OSDN_MEMBER(model.norm_eps),
                     "Epsilon of every RMSNorm.")
                     .above(0)
                     .to(1)
                     .also({"rms_norm_eps", "layer_norm_eps", "eps"}));
  keys.push_back(Row("model.initializer_range",
                     OSDN_MEMBER(model.initializer_range),
                     "Standard deviation of initial weights.")
                     .above(0)
                     .to(10)
                     .also({"init_std"}));
  keys.push_back(Row("model.tie_word_embeddings",
                     OSDN_MEMBER(model.tie_word_embeddings),
                     "The head is the embedding."));
}

void add_softmax(std::vector<Key>& keys) {
  const std::string softmax(kOnlySoftmax);
  keys.push_back(Row("model.softmax.layers", OSDN_MEMBER(model.softmax.layers),
                     "Layers of a hybrid, counted from 0, that have softmax "
                     "attention in place of the delta rule, in rising order.")
                     .from(0)
                     .to(1023)
                     .only(std::string(kOnlyDeltaRule), has_delta_rule));
  keys.push_back(Row("model.softmax.num_heads",
                     OSDN_MEMBER(model.softmax.num_heads), "Query heads.")
                     .from(1)
                     .to(4096)
                     .default_is("hidden_size / 64, at least 1")
                     .only(softmax, has_softmax)
                     .resolves([](const Config& config) -> Value {
                       return config.model.softmax_heads();
                     }));
  keys.push_back(
      Row("model.softmax.num_kv_heads", OSDN_MEMBER(model.softmax.num_kv_heads),
          "Key and value heads; divides num_heads, neighbours share one.")
          .from(1)
          .to(4096)
          .default_is("num_heads")
          .only(softmax, has_softmax)
          .resolves([](const Config& config) -> Value {
            return config.model.softmax_kv_heads();
          })
          .also({"num_key_value_heads"}));
  keys.push_back(Row("model.softmax.head_dim",
                     OSDN_MEMBER(model.softmax.head_dim),
                     "Width of a head, an even number.")
                     .from(2)
                     .to(4096)
                     .default_is("hidden_size / num_heads")
                     .only(softmax, has_softmax)
                     .resolves([](const Config& config) -> Value {
                       return config.model.softmax_head_dim();
                     }));
  keys.push_back(Row("model.softmax.rope_theta",
                     OSDN_MEMBER(model.softmax.rope_theta),
                     "Base of the rotary positions: channel pair i turns by "
                     "rope_theta^(-2 i / head_dim) a token.")
                     .from(1)
                     .to(1e12)
                     .only(softmax, has_softmax)
                     .also({"rotary_base", "rope_base"}));
}

void add_token_ids(std::vector<Key>& keys) {
  const std::string help =
      " that osdn-convert writes for others; -1: none. osdn itself takes the "
      "tokenizer's.";
  keys.push_back(Row("model.token_ids.bos", OSDN_MEMBER(model.token_ids.bos),
                     "Number of the first token of a document" + help)
                     .from(-1)
                     .to(1 << 30)
                     .also({"bos_token_id", "bos_id"}));
  keys.push_back(Row("model.token_ids.eos", OSDN_MEMBER(model.token_ids.eos),
                     "Number of the token after the last one" + help)
                     .from(-1)
                     .to(1 << 30)
                     .also({"eos_token_id", "eos_id"}));
  keys.push_back(Row("model.token_ids.pad", OSDN_MEMBER(model.token_ids.pad),
                     "Number of the padding token" + help)
                     .from(-1)
                     .to(1 << 30)
                     .also({"pad_token_id", "pad_id"}));
}

void add_preconditioner(std::vector<Key>& keys) {
  const std::string by_preset = "by preset";
  const std::string prefix = "model.preconditioner.";
  keys.push_back(Row(prefix + "preset",
                     OSDN_MEMBER(model.preconditioner.preset),
                     "Fills every key of this section that is not given: see "
                     "Presets.")
                     .choices({"paper", "published-runs"}));
  keys.push_back(Row(prefix + "eta", OSDN_MEMBER(model.preconditioner.eta),
                     "Step size of the scale d.")
                     .from(0)
                     .to(1000)
                     .default_is(by_preset)
                     .also({"osgm_eta", "step_size"}));
  keys.push_back(Row(prefix + "d_min", OSDN_MEMBER(model.preconditioner.d_min),
                     "Lower end of the box that d is clipped to.")
                     .from(0)
                     .default_is(by_preset)
                     .also({"osgm_d_min"}));
  keys.push_back(Row(prefix + "d_max", OSDN_MEMBER(model.preconditioner.d_max),
                     "Upper end of the box.")
                     .from(0)
                     .default_is(by_preset)
                     .also({"osgm_d_max"}));
  keys.push_back(
      Row(prefix + "beta_aware", OSDN_MEMBER(model.preconditioner.beta_aware),
          "The step accounts for beta: eta beta (1 - beta s) / n, else "
          "eta (1 - s) / n.")
          .default_is(by_preset)
          .only("beta is learned (model.use_beta is true)",
                [](const Config& config) {
                  return !is_deltanet(config) || config.model.use_beta;
                })
          .also({"osgm_beta_aware"}));
  keys.push_back(Row(prefix + "norm", OSDN_MEMBER(model.preconditioner.norm),
                     "The step's divisor n: max(||k||^2, 1e-6), 1, or "
                     "||k||^2 + 1e-5.")
                     .choices({"floor", "off", "add"})
                     .default_is(by_preset)
                     .also({"osgm_norm", "use_denominator"}));
  keys.push_back(Row(prefix + "d0_init",
                     OSDN_MEMBER(model.preconditioner.d0_init),
                     "What the learned start d0 of each document begins at.")
                     .from(0)
                     .default_is(by_preset)
                     .also({"osgm_d0_init"}));
  keys.push_back(Row(prefix + "detach",
                     OSDN_MEMBER(model.preconditioner.detach),
                     "Stops the gradient through d.")
                     .default_is(by_preset)
                     .also({"osgm_detach"}));
  keys.push_back(
      Row(prefix + "retention", OSDN_MEMBER(model.preconditioner.retention),
          "Forgetting of d (APF): none, from the token by a gate of "
          "its own, or tied to the decay of a GDN layer. A constant "
          "and a learned number a head are there for imported "
          "models.")
          .choices({"none", "data_dependent", "tied", "constant", "per_head"})
          .also({"osgm_decay_mode", "apf"}));
  keys.push_back(
      Row(prefix + "retention_bias",
          OSDN_MEMBER(model.preconditioner.retention_bias),
          "Where a learned retention starts: r = sigmoid of it.")
          .from(-100)
          .to(100)
          .only("model.preconditioner.retention is \"data_dependent\" or "
                "\"per_head\"",
                [](const Config& config) {
                  const Retention retention =
                      config.model.preconditioner.retention;
                  return retention == Retention::kDataDependent ||
                         retention == Retention::kPerHead;
                }));
  keys.push_back(Row(prefix + "retention_value",
                     OSDN_MEMBER(model.preconditioner.retention_value),
                     "The constant r.")
                     .above(0)
                     .to(1)
                     .only("model.preconditioner.retention is \"constant\"",
                           [](const Config& config) {
                             return config.model.preconditioner.retention ==
                                    Retention::kConstant;
                           }));
}

}  // namespace

std::vector<Key> model_keys() {
  std::vector<Key> keys;
  add_model(keys);
  add_softmax(keys);
  add_token_ids(keys);
  add_preconditioner(keys);
  for (Key& key : keys) {
    if (key.section() != "model.preconditioner") {
      continue;
    }
    // The whole section depends on being there.
    key.applies = [inner = key.applies](const Config& config) {
      return config.model.preconditioner.enabled && (!inner || inner(config));
    };
  }
  return keys;
}

}  // namespace osdn::config
