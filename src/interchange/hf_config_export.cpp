// From a model configuration to a config.json. Trap numbers are those of
// layers.md 7.

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "hf_kind.h"
#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/interchange/hf_config.h"

namespace osdn::interchange {

namespace {

using config::KeyNorm;
using config::LayerKind;
using config::ModelConfig;
using config::PreconditionerConfig;
using config::QkActivation;
using config::QkNorm;
using config::Retention;
using nlohmann::json;

const HfKind& kind_of(const ModelConfig& model) {
  const std::string type = hf_model_type(model);
  for (const HfKind& kind : kHfKinds) {
    if (kind.model_type == type) return kind;
  }
  throw Error(concat("model type \"", type, "\" is not in the table"));
}

// Trap 5: the authors' DeltaNet is beta-free, without negative eigenvalues, and
// divides by nothing or by norm^2 + 1e-5, which is osdn's floor for unit keys
// only.
bool osla_can_express(const ModelConfig& model) {
  const PreconditionerConfig& scale = model.preconditioner;
  const bool beta_free = !scale.beta_aware || !model.use_beta;
  const bool norm_known =
      scale.norm != KeyNorm::kFloor || model.qk_norm == QkNorm::kL2;
  return beta_free && norm_known && !model.allow_neg_eigval;
}

// Whole numbers without a point, as the public classes write them.
json number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e6) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

template <typename T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

std::string_view word(QkActivation activation) {
  switch (activation) {
    case QkActivation::kSilu:
      return "silu";
    case QkActivation::kRelu:
      return "relu";
    case QkActivation::kElu:
      return "elu";
    case QkActivation::kIdentity:
      return "identity";
  }
  return "";
}

std::string_view word(KeyNorm norm) {
  switch (norm) {
    case KeyNorm::kFloor:
      return "floor";
    case KeyNorm::kOff:
      return "off";
    case KeyNorm::kAdd:
      return "add";
  }
  return "";
}

std::string_view word(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kF16:
      return "float16";
    case DType::kBF16:
      return "bfloat16";
    default:
      throw Error(concat("weights of ", name_of(dtype),
                         " are not exchanged; expected F32, F16 or BF16"),
                  ExitCode::kUsage);
  }
}

/// The public ratio gives back `width` by int(h * ratio), and exactly where
/// some number does.
double ratio_of(std::int64_t width, std::int64_t h, double ratio) {
  const auto wide = static_cast<double>(h);
  if (wide * ratio == static_cast<double>(width)) return ratio;
  const double exact = static_cast<double>(width) / wide;
  return static_cast<std::int64_t>(wide * exact) == width
             ? exact
             : std::nextafter(exact, 2 * exact);
}

json token_id(const char* name, std::optional<std::int64_t> given,
              std::int64_t own, std::int64_t vocab_size) {
  if (given && (*given < -1 || *given >= vocab_size)) {
    throw Error(concat(name, " is to be ", *given,
                       "; expected an id below the vocabulary of ", vocab_size,
                       ", or -1 for none"),
                ExitCode::kUsage);
  }
  const std::int64_t id = given.value_or(own);
  return id < 0 ? json(nullptr) : json(id);
}

// What every public model has.
json shared_keys(const ModelConfig& model, const HfKind& kind,
                 const ExportOptions& options) {
  return {
      {"model_type", kind.model_type},
      {"architectures", json::array({kind.architecture})},
      {"dtype", word(options.dtype)},
      {"torch_dtype", word(options.dtype)},
      {"vocab_size", model.vocab_size},
      {"hidden_size", model.hidden_size},
      {"num_hidden_layers", model.num_layers},
      {"initializer_range", model.initializer_range},
      {"tie_word_embeddings", model.tie_word_embeddings},
      {"max_position_embeddings", options.max_position_embeddings},
      {"bos_token_id", token_id("bos_token_id", options.bos_token_id,
                                model.token_ids.bos, model.vocab_size)},
      {"eos_token_id", token_id("eos_token_id", options.eos_token_id,
                                model.token_ids.eos, model.vocab_size)},
      {"pad_token_id", token_id("pad_token_id", options.pad_token_id,
                                model.token_ids.pad, model.vocab_size)},
      {"use_cache", true},
  };
}

// Older and newer versions of the public library look for the rotary base at
// the top and in rope_parameters.
json llama_keys(const ModelConfig& model) {
  return {
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"head_dim", model.softmax_head_dim()},
      {"hidden_act", "silu"},
      {"intermediate_size", model.mlp_width()},
      {"mlp_bias", false},
      {"num_attention_heads", model.softmax_heads()},
      {"num_key_value_heads", model.softmax_kv_heads()},
      {"pretraining_tp", 1},
      {"rms_norm_eps", model.norm_eps},
      {"rope_parameters",
       {{"rope_theta", model.softmax.rope_theta}, {"rope_type", "default"}}},
      {"rope_theta", model.softmax.rope_theta},
  };
}

json hybrid_keys(const ModelConfig& model) {
  if (model.softmax_layers() == 0) return nullptr;
  return {
      {"layers", model.softmax.layers},
      {"num_heads", model.softmax_heads()},
      {"num_kv_heads", model.softmax_kv_heads()},
      {"qkv_bias", false},
      {"window_size", nullptr},
      {"rope_theta", model.softmax.rope_theta},
  };
}

json delta_rule_keys(const ModelConfig& model, const HfKind& kind) {
  json root = {
      {"attn", hybrid_keys(model)},
      {"attn_mode", "chunk"},
      {"num_heads", model.num_heads},
      {"expand_v",
       number(model.layer == LayerKind::kDeltaNet
                  ? ratio_of(model.num_heads * model.value_width(),
                             model.hidden_size, model.expand_v_or_default())
                  : model.expand_v_or_default())},
      {"use_short_conv", model.use_short_conv},
      {"conv_size", model.conv_size},
      {"hidden_act", "swish"},
      {"hidden_ratio", number(model.hidden_ratio)},
      {"intermediate_size", or_null(model.intermediate_size)},
      {"norm_eps", model.norm_eps},
      {"use_l2warp", false},
      {"fuse_norm", true},
      {"fuse_swiglu", true},
      {"fuse_cross_entropy", true},
  };
  if (kind.family == Family::kPlain) root["attnres_block_size"] = nullptr;
  return root;
}

void add_layer_keys(const ModelConfig& model, const HfKind& kind, json& root) {
  if (model.layer != LayerKind::kKda) {
    root["fuse_linear_cross_entropy"] = false;
    root["use_gate"] = model.output_gate();
  }
  if (model.layer == LayerKind::kDeltaNet) {
    root["expand_k"] = number(ratio_of(model.num_heads * model.key_width(),
                                       model.hidden_size, model.expand_k));
    root["use_beta"] = model.use_beta;
    root["use_output_norm"] = true;
    root["qk_norm"] = model.qk_norm == QkNorm::kL2 ? "l2" : "sum";
    root["qk_activation"] = word(model.qk_activation);
  } else {
    root["head_dim"] = model.key_width();
    root["num_v_heads"] = model.value_heads() == model.num_heads
                              ? json(nullptr)
                              : json(model.value_heads());
  }
  if (model.layer == LayerKind::kKda) {
    root["safe_gate"] = model.safe_gate;
    root["lower_bound"] = or_null(model.lower_bound);
  }
  if (kind.model_type != "osla_delta_net") {
    root["allow_neg_eigval"] = model.allow_neg_eigval;
  }
}

std::string_view decay_mode(Retention retention) {
  switch (retention) {
    case Retention::kNone:
      return "none";
    case Retention::kConstant:
      return "constant";
    case Retention::kPerHead:
      return "learnable";
    case Retention::kDataDependent:
    case Retention::kTied:
      return "data_dependent";
  }
  return "";
}

void add_online_scaled_keys(const ModelConfig& model, const HfKind& kind,
                            json& root) {
  const PreconditionerConfig& scale = model.preconditioner;
  root["use_osgm"] = true;
  root["osgm_eta"] = scale.eta;
  root["osgm_d_min"] = scale.d_min;
  root["osgm_d_max"] = scale.d_max;
  root["osgm_use_denominator"] = scale.norm == KeyNorm::kAdd;
  root["osgm_norm"] = word(scale.norm);
  root["osgm_d0_init"] = scale.d0_init;
  root["osgm_detach"] = scale.detach;
  root["osgm_decay_mode"] = decay_mode(scale.retention);
  if (scale.retention == Retention::kConstant) {
    root["osgm_decay_gamma"] = scale.retention_value;
  }
  if (model.layer == LayerKind::kGdn) {
    root["osgm_post_gate_regret"] = scale.beta_aware;  // trap 7
    root["osgm_d_decay_source"] =
        scale.retention == Retention::kTied ? "gdn" : "osgm";
  } else if (kind.model_type != "osla_delta_net") {
    root["osgm_beta_aware"] = scale.beta_aware;
  }
}

}  // namespace

std::string hf_model_type(const ModelConfig& model) {
  if (model.is_transformer()) return "llama";
  if (model.softmax_layers() > 0 &&
      model.softmax_head_dim() * model.softmax_heads() != model.hidden_size) {
    throw Error(
        concat("model.softmax.head_dim is ", model.softmax_head_dim(), " with ",
               model.softmax_heads(), " heads, but the public hybrids have ",
               "heads that make up model.hidden_size = ", model.hidden_size),
        ExitCode::kUsage);
  }
  if (!model.preconditioner.enabled) {
    switch (model.layer) {
      case LayerKind::kDeltaNet:
        return "delta_net";
      case LayerKind::kGdn:
        return "gated_deltanet";
      case LayerKind::kKda:
        return "kda";
      case LayerKind::kTransformer:
        break;  // above
    }
  }
  switch (model.layer) {
    case LayerKind::kDeltaNet:
      return osla_can_express(model) ? "osla_delta_net" : "osdn_delta_net";
    case LayerKind::kGdn:
      return "os_gated_deltanet";
    case LayerKind::kKda:
    case LayerKind::kTransformer:
      break;
  }
  if (model.preconditioner.retention == Retention::kPerHead) {
    throw Error(
        "model.preconditioner.retention is \"per_head\", which the public "
        "os_kda lacks; expected \"none\", \"constant\" or \"data_dependent\"",
        ExitCode::kUsage);
  }
  return "os_kda";
}

std::string model_to_hf_config(const ModelConfig& model,
                               const ExportOptions& options) {
  const HfKind& kind = kind_of(model);
  json root = shared_keys(model, kind, options);
  if (kind.family == Family::kLlama) {
    root.update(llama_keys(model));
    return root.dump(2) + "\n";
  }
  root.update(delta_rule_keys(model, kind));
  add_layer_keys(model, kind, root);
  if (model.preconditioner.enabled) add_online_scaled_keys(model, kind, root);
  return root.dump(2) + "\n";
}

}  // namespace osdn::interchange
