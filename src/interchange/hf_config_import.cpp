// From a config.json to a model configuration. Section and trap numbers are
// those of layers.md.

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "hf_keys.h"
#include "hf_kind.h"
#include "hf_softmax_import.h"
#include "osdn/config/validate.h"
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

std::string quoted_types() {
  std::string all;
  for (const HfKind& kind : kHfKinds) {
    all += concat(all.empty() ? "" : ", ", "\"", kind.model_type, "\"");
  }
  return all;
}

const HfKind& kind_of(HfKeys& keys) {
  const std::string type = keys.text("model_type", "");
  for (const HfKind& kind : kHfKinds) {
    if (kind.model_type == type) return kind;
  }
  keys.wrong("model_type", concat("one of ", quoted_types()));
  keys.throw_problems();
  return kHfKinds.front();
}

void check_architecture(HfKeys& keys, const HfKind& kind) {
  const std::vector<std::string> named = keys.texts("architectures");
  const bool fits = std::any_of(named.begin(), named.end(), [&](const auto& a) {
    return a == kind.architecture ||
           (!kind.other_architecture.empty() && a == kind.other_architecture);
  });
  if (!named.empty() && !fits) {
    keys.wrong("architectures",
               concat("\"", kind.architecture, "\", the one of model_type \"",
                      kind.model_type, "\""));
  }
}

// Section 8, keys of every model; the defaults are those of the public classes.
void read_common(HfKeys& keys, const HfKind& kind, ModelConfig& model) {
  const bool gdn = kind.layer == LayerKind::kGdn;
  model.vocab_size = keys.integer("vocab_size", 32000, 1);
  model.hidden_size = keys.integer("hidden_size", 2048, 1);
  model.num_layers = keys.integer("num_hidden_layers", gdn ? 21 : 24, 1);
  model.num_heads = keys.integer("num_heads", gdn ? 6 : 16, 1);
  model.use_short_conv = keys.boolean("use_short_conv", true);
  model.conv_size = keys.integer("conv_size", 4, 1);
  model.hidden_ratio = keys.number("hidden_ratio", 4, 0, true);
  model.intermediate_size = keys.optional_integer("intermediate_size", 1);
  model.norm_eps = keys.number("norm_eps", 1e-6, 0);
  model.initializer_range = keys.number("initializer_range", 0.02, 0);
  model.tie_word_embeddings = keys.boolean("tie_word_embeddings", false);
  const std::string activation = keys.text("hidden_act", "swish");
  if (activation != "swish" && activation != "silu") {
    keys.wrong("hidden_act", "\"swish\" or \"silu\"");
  }
  keys.must_be_off("attnres_block_size",
                   "attention residuals are not supported");
  keys.must_be_off("use_l2warp", "its gradient is not supported");
  keys.must_be_off("conv_bias", "the convolutions have no bias");
  keys.must_be_off("quantization_config",
                   "quantised weights are not supported");
}

void read_deltanet(HfKeys& keys, const HfKind& kind, ModelConfig& model) {
  model.expand_k = keys.number("expand_k", 1, 0);
  model.expand_v = keys.number("expand_v", 1, 0);
  model.use_gate = keys.boolean("use_gate", false);
  model.use_beta = keys.boolean("use_beta", true);
  const std::string norm = keys.text("qk_norm", "l2");
  if (norm == "sum") {
    model.qk_norm = QkNorm::kSum;
  } else if (norm != "l2") {
    keys.wrong("qk_norm", "\"l2\" or \"sum\"");
  }
  const std::string activation = keys.text("qk_activation", "silu");
  if (activation == "relu") {
    model.qk_activation = QkActivation::kRelu;
  } else if (activation == "elu") {
    model.qk_activation = QkActivation::kElu;
  } else if (activation == "identity") {
    model.qk_activation = QkActivation::kIdentity;
  } else if (activation != "silu") {
    keys.wrong("qk_activation", "\"silu\", \"relu\", \"elu\" or \"identity\"");
  }
  if (norm == "sum" && (activation == "silu" || activation == "identity")) {
    keys.warn(
        concat("qk_norm is \"sum\" with a qk_activation that has both "
               "signs: taken as x / sum(x); public code of August 2026 "
               "and later divides by sum(|x|)"));
  }
  if (kind.family == Family::kOsla) {
    keys.must_be_off("allow_neg_eigval",
                     "osla_delta_net has no such key and would ignore it");
  } else {
    model.allow_neg_eigval = keys.boolean("allow_neg_eigval", false);
  }
  if (!keys.boolean("use_output_norm", true)) {
    keys.warn(
        "use_output_norm is false, which the public class reads and "
        "ignores: the norm is always there");
  }
}

void read_grouped(HfKeys& keys, ModelConfig& model) {
  const bool gdn = model.layer == LayerKind::kGdn;
  model.head_dim = keys.integer("head_dim", gdn ? 256 : 128, 1);
  model.num_v_heads = keys.optional_integer("num_v_heads", 1);
  model.expand_v = keys.number("expand_v", gdn ? 2 : 1, 0);
  model.allow_neg_eigval = keys.boolean("allow_neg_eigval", false);
  if (gdn) {
    model.use_gate = keys.boolean("use_gate", true);
    const std::string gate = keys.text("output_gate_activation", "swish");
    if (*model.use_gate && gate != "swish" && gate != "silu") {
      keys.wrong("output_gate_activation", "\"swish\" or \"silu\"");
    }
    return;
  }
  model.safe_gate = keys.boolean("safe_gate", false);
  model.lower_bound = keys.optional_number("lower_bound");
  if (model.lower_bound && *model.lower_bound >= 0) {
    keys.wrong("lower_bound", "a number below 0, or null");
  }
}

// Whether the model is online-scaled; traps 4 and 7.
bool is_online_scaled(HfKeys& keys, const HfKind& kind) {
  const bool initial =
      kind.family != Family::kPlain && kind.model_type != "osla_delta_net";
  const bool on = keys.boolean("use_osgm", initial);
  if (kind.model_type == "osla_delta_net" && !on) {
    keys.wrong("use_osgm",
               "true: without it osla_delta_net is another model with the same "
               "tensor names, which is not supported");
  }
  if (kind.family == Family::kOsdnDelta && !on) {
    keys.wrong("use_osgm", "true: a plain DeltaNet is a \"delta_net\"");
  }
  if (on && kind.family == Family::kPlain && kind.layer != LayerKind::kKda) {
    keys.wrong("use_osgm",
               concat("false: no \"", kind.model_type, "\" is online-scaled"));
  }
  return on;
}

// Trap 6: what a null stands for has changed in the authors' code.
double or_null(HfKeys& keys, const std::string& key, double null_value) {
  if (!keys.has(key) || keys.is_null(key)) {
    keys.warn(concat(key, " is ", keys.found(key), ", which is taken as ",
                     null_value,
                     key == "osgm_d_max"
                         ? "; before 2026-04-14 the authors' code took it as 2"
                         : ""));
  }
  return keys.number(key, null_value, 0, true);
}

// Trap 11 and the variants that section 8 calls abandoned.
void refuse_abandoned(HfKeys& keys) {
  for (const char* key :
       {"osgm_freeze", "gate_aware_hypergradient", "osgm_post_gate_residual",
        "osgm_post_gate_clamp_min", "osgm_post_gate_use_remaining"}) {
    keys.must_be_off(key, "this variant is not supported");
  }
  keys.ignore("osgm_ema_alpha");  // of the EMA modes, which are refused
  for (const std::string& key : keys.unseen()) {
    if (key.starts_with("osgm_ema")) {
      keys.must_be_off(key, "the EMA modes are not supported");
    }
  }
}

Retention read_retention(HfKeys& keys, const HfKind& kind,
                         PreconditionerConfig& scale,
                         ImportedConfig& imported) {
  std::string mode = keys.text(
      "osgm_decay_mode", kind.model_type == "os_kda" ? "constant" : "none");
  if (keys.optional_boolean("osgm_decay").value_or(false)) {
    if (mode != "none" && mode != "learnable") {
      keys.wrong("osgm_decay",
                 concat("false, since osgm_decay_mode is \"", mode, "\""));
    }
    mode = "learnable";
  }
  const double gamma = keys.number("osgm_decay_gamma",
                                   kind.model_type == "kda" ? 1.0 : 0.999, 0);
  std::string source = "osgm";
  if (kind.layer == LayerKind::kGdn) {
    source = keys.text("osgm_d_decay_source", "osgm");
    if (source != "osgm" && source != "gdn") {
      keys.wrong("osgm_d_decay_source", "\"osgm\" or \"gdn\"");
    }
  } else if (keys.text("osgm_d_decay_source", "osgm") == "gdn") {
    keys.wrong("osgm_d_decay_source",
               "\"osgm\": only a gated_deltanet has a decay to tie it to");
  }
  if (source == "gdn" && mode != "data_dependent") {
    keys.wrong("osgm_decay_mode",
               "\"data_dependent\", since osgm_d_decay_source is \"gdn\"");
    return Retention::kTied;
  }
  if (mode == "none") return Retention::kNone;
  if (mode == "data_dependent") {
    return source == "gdn" ? Retention::kTied : Retention::kDataDependent;
  }
  if (mode == "constant") {
    if (gamma <= 0 || gamma > 1) {
      keys.wrong("osgm_decay_gamma", "a number above 0, at most 1");
    }
    scale.retention_value = gamma;
    imported.retention_in_weights = kind.layer != LayerKind::kKda;
    return Retention::kConstant;
  }
  if (mode == "learnable" && kind.layer != LayerKind::kKda) {
    return Retention::kPerHead;
  }
  keys.wrong("osgm_decay_mode",
             kind.layer == LayerKind::kKda
                 ? "\"none\", \"constant\" or \"data_dependent\""
                 : "\"none\", \"constant\", \"learnable\" or "
                   "\"data_dependent\"");
  return Retention::kNone;
}

// Traps 5 and 7: where the authors' kernels take beta into the step.
bool read_beta_aware(HfKeys& keys, const HfKind& kind) {
  if (kind.model_type == "osla_delta_net") {
    if (keys.optional_boolean("osgm_beta_aware").value_or(false)) {
      keys.warn(
          "osgm_beta_aware is true, which osla_delta_net ignores: the "
          "model is beta-free");
    }
    return false;
  }
  if (kind.layer == LayerKind::kGdn) {
    keys.ignore("osgm_post_gate_regret_chunk_size");
    return keys.boolean("osgm_post_gate_regret", false);
  }
  return keys.boolean("osgm_beta_aware", true);
}

// Trap 8. osgm_norm is osdn's own, exact spelling.
KeyNorm read_norm(HfKeys& keys, const HfKind& kind, const ModelConfig& model) {
  const std::optional<bool> divide =
      keys.optional_boolean("osgm_use_denominator");
  if (keys.has("osgm_norm")) {
    const std::string norm = keys.text("osgm_norm", "floor");
    if (norm == "off") return KeyNorm::kOff;
    if (norm == "add") return KeyNorm::kAdd;
    if (norm != "floor") {
      keys.wrong("osgm_norm", "\"floor\", \"off\" or \"add\"");
    }
    return KeyNorm::kFloor;
  }
  if (kind.family == Family::kOsdnDelta) return KeyNorm::kFloor;
  if (!divide && model.layer == LayerKind::kDeltaNet &&
      model.qk_norm == QkNorm::kSum) {
    keys.wrong("osgm_use_denominator",
               "true or false, since a null is not certain where qk_norm is "
               "\"sum\"");
  }
  return divide.value_or(false) ? KeyNorm::kAdd : KeyNorm::kOff;
}

void read_preconditioner(HfKeys& keys, const HfKind& kind,
                         ImportedConfig& imported) {
  PreconditionerConfig& scale = imported.model.preconditioner;
  scale.enabled = true;
  if (kind.family == Family::kOsdnDelta) {
    scale.eta = keys.number("osgm_eta", scale.eta, 0);
    scale.d_min = keys.number("osgm_d_min", scale.d_min, 0);
    scale.d_max = keys.number("osgm_d_max", scale.d_max, 0);
  } else if (kind.model_type == "os_kda") {
    // Its defaults are numbers: only a written null is doubtful.
    scale.eta = keys.has("osgm_eta") ? or_null(keys, "osgm_eta", 1) : 1;
    scale.d_min = keys.has("osgm_d_min") ? or_null(keys, "osgm_d_min", 0) : 0;
    scale.d_max =
        keys.has("osgm_d_max") ? or_null(keys, "osgm_d_max", 1e9) : 1e9;
  } else {
    scale.eta = or_null(keys, "osgm_eta", 1);
    scale.d_min = or_null(keys, "osgm_d_min", 0);
    scale.d_max = or_null(keys, "osgm_d_max", 1e9);
  }
  scale.beta_aware = read_beta_aware(keys, kind);
  scale.norm = read_norm(keys, kind, imported.model);
  scale.retention = read_retention(keys, kind, scale, imported);
  scale.detach = keys.boolean("osgm_detach", false);
  // Where training started; the weights hold where it went.
  const double start = kind.model_type == "osla_delta_net" ? 0.0 : 1.0;
  scale.d0_init =
      keys.has("osgm_d0_init")     ? keys.number("osgm_d0_init", start, 0)
      : scale.d_min <= scale.d_max ? std::clamp(start, scale.d_min, scale.d_max)
                                   : start;
  refuse_abandoned(keys);
}

// Bookkeeping, speed, and what the transformers library writes into every file.
void pass_over(HfKeys& keys) {
  for (const char* key : {"attn_mode",
                          "use_cache",
                          "fuse_norm",
                          "fuse_swiglu",
                          "fuse_cross_entropy",
                          "fuse_linear_cross_entropy",
                          "dtype",
                          "torch_dtype",
                          "transformers_version",
                          "auto_map",
                          "_name_or_path",
                          "_attn_implementation",
                          "return_dict",
                          "output_hidden_states",
                          "output_attentions",
                          "chunk_size_feed_forward",
                          "is_encoder_decoder",
                          "is_decoder",
                          "id2label",
                          "label2id",
                          "problem_type",
                          "keys_to_ignore_at_inference"}) {
    keys.ignore(key);
  }
}

// The configuration's own checks speak of its keys; here they have the names
// of the file.
std::string name_in_file(std::string_view path, const HfKind& kind) {
  const bool llama = kind.family == Family::kLlama;
  if (path == "model.num_layers") return "num_hidden_layers";
  if (path == "model.softmax.num_heads" && llama) return "num_attention_heads";
  if (path == "model.softmax.num_kv_heads" && llama) {
    return "num_key_value_heads";
  }
  constexpr std::string_view kSoftmax = "model.softmax.";
  if (path.starts_with(kSoftmax)) {
    return concat(llama ? "" : "attn.", path.substr(kSoftmax.size()));
  }
  if (path == "model.layer") return "model_type";
  constexpr std::string_view kTokenIds = "model.token_ids.";
  if (path.starts_with(kTokenIds)) {
    return concat(path.substr(kTokenIds.size()), "_token_id");
  }
  constexpr std::string_view kScale = "model.preconditioner.";
  if (path.starts_with(kScale)) {
    return concat("osgm_", path.substr(kScale.size()));
  }
  constexpr std::string_view kModel = "model.";
  return std::string(path.substr(path.starts_with(kModel) ? kModel.size() : 0));
}

void check_model(HfKeys& keys, const ModelConfig& model, const HfKind& kind) {
  config::Config whole;
  whole.model = model;
  for (const std::string& what : config::combination_problems(
           whole,
           [&](std::string_view path) { return name_in_file(path, kind); })) {
    keys.problem(what);
  }
  keys.throw_problems();
  try {
    config::validate(whole);
  } catch (const Error& error) {
    throw Error(
        concat(keys.file(), ": is no model that osdn can make: ", error.what()),
        ExitCode::kBadInput);
  }
}

}  // namespace

ImportedConfig hf_config_to_model(std::string_view text,
                                  const std::string& file) {
  HfKeys keys(text, file);
  const HfKind& kind = kind_of(keys);
  ImportedConfig imported;
  check_architecture(keys, kind);
  imported.model.layer = kind.layer;
  if (kind.family == Family::kLlama) {
    read_llama(keys, imported.model);
  } else {
    read_common(keys, kind, imported.model);
    read_hybrid(keys, imported.model);
    if (kind.layer == LayerKind::kDeltaNet) {
      read_deltanet(keys, kind, imported.model);
    } else {
      read_grouped(keys, imported.model);
    }
  }
  read_token_ids(keys, imported.model);
  imported.max_position_embeddings =
      keys.integer("max_position_embeddings", 2048, 1);
  const bool online_scaled =
      kind.family != Family::kLlama && is_online_scaled(keys, kind);
  if (online_scaled) read_preconditioner(keys, kind, imported);
  pass_over(keys);
  for (const std::string& key : keys.unseen()) {
    if (!online_scaled && key.starts_with("osgm_")) continue;  // all off
    keys.warn_unknown(key);
  }
  check_model(keys, imported.model, kind);
  imported.warnings = keys.take_warnings();
  return imported;
}

}  // namespace osdn::interchange
