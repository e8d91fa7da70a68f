#include "osdn/interchange/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "interchange/sample_models.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "support/shared_data.h"

namespace osdn::interchange {
namespace {

using config::KeyNorm;
using config::LayerKind;
using config::ModelConfig;
using config::PreconditionerConfig;
using config::Retention;
using nlohmann::json;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

ImportedConfig import(const json& keys) {
  return hf_config_to_model(keys.dump(), "folder/config.json");
}

// The message of the Error that importing throws.
std::string fault(const json& keys) {
  try {
    import(keys);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  ADD_FAILURE() << "nothing thrown for " << keys.dump();
  return {};
}

json small(const std::string& type) {
  json keys = {{"model_type", type}, {"hidden_size", 64},
               {"num_heads", 2},     {"num_hidden_layers", 2},
               {"vocab_size", 256},  {"intermediate_size", 128}};
  if (type.find("delta_net") == std::string::npos) keys["head_dim"] = 32;
  return keys;
}

json online_scaled(const std::string& type) {
  json keys = small(type);
  keys["use_osgm"] = true;
  keys["osgm_eta"] = 0.5;
  keys["osgm_d_min"] = 0.25;
  keys["osgm_d_max"] = 3.0;
  keys["osgm_use_denominator"] = false;
  keys["osgm_decay_mode"] = "none";
  return keys;
}

json with(json keys, const std::string& key, const json& value) {
  keys[key] = value;
  return keys;
}

TEST(HfConfig, missing_keys_have_the_public_defaults) {
  const ModelConfig d = import({{"model_type", "delta_net"}}).model;
  EXPECT_EQ(d.layer, LayerKind::kDeltaNet);
  EXPECT_EQ(d.hidden_size, 2048);
  EXPECT_EQ(d.num_layers, 24);
  EXPECT_EQ(d.num_heads, 16);
  EXPECT_FALSE(d.output_gate());
  EXPECT_EQ(d.mlp_width(), 5632);
  const ModelConfig g = import({{"model_type", "gated_deltanet"}}).model;
  EXPECT_EQ(g.num_layers, 21);
  EXPECT_EQ(g.num_heads, 6);
  EXPECT_EQ(g.key_width(), 256);
  EXPECT_EQ(g.value_width(), 512);
  EXPECT_TRUE(g.output_gate());
  const ModelConfig a = import({{"model_type", "kda"}}).model;
  EXPECT_EQ(a.num_layers, 24);
  EXPECT_EQ(a.num_heads, 16);
  EXPECT_EQ(a.key_width(), 128);
  EXPECT_EQ(a.value_width(), 128);
  EXPECT_FALSE(a.lower_bound);
  EXPECT_FALSE(a.preconditioner.enabled);
}

TEST(HfConfig, reference_files_are_read_without_warnings) {
  OSDN_NEEDS_SHARED("golden/hf");
  for (const char* name :
       {"delta_net", "delta_net_gated_tied", "gated_deltanet", "kda",
        "kda_bounded", "llama", "os_gated_deltanet_tied", "os_kda_apf",
        "osla_delta_net", "osla_delta_net_apf"}) {
    SCOPED_TRACE(name);
    const auto path =
        ::osdn::test::shared_path("golden/hf") / name / "config.json";
    const ImportedConfig imported =
        hf_config_to_model(read_file(path), path.string());
    EXPECT_THAT(imported.warnings, IsEmpty());
    EXPECT_EQ(imported.max_position_embeddings,
              imported.model.is_transformer() ? 2048 : 512);
    // What is written for the model names the same type and class.
    const json original = json::parse(read_file(path));
    const json written = json::parse(model_to_hf_config(imported.model, {}));
    EXPECT_EQ(written.at("model_type"), original.at("model_type"));
    EXPECT_EQ(written.at("architectures"), original.at("architectures"));
  }
}

TEST(HfConfig, every_model_comes_back_from_what_is_written) {
  for (const auto& [name, model] : test::sample_models()) {
    SCOPED_TRACE(name);
    ExportOptions options;
    options.max_position_embeddings = 77;
    const std::string text = model_to_hf_config(model, options);
    const ImportedConfig imported = hf_config_to_model(text, "config.json");
    EXPECT_THAT(imported.warnings, IsEmpty());
    EXPECT_EQ(imported.max_position_embeddings, 77);
    EXPECT_EQ(test::described(imported.model), test::described(model));
    EXPECT_EQ(model_to_hf_config(imported.model, options), text);
  }
}

TEST(HfConfig, written_files_name_what_the_public_classes_need) {
  ExportOptions options;
  options.dtype = DType::kBF16;
  options.bos_token_id = 5;
  options.pad_token_id = 0;
  const json keys =
      json::parse(model_to_hf_config(test::sample_models().at("kda"), options));
  EXPECT_EQ(keys.at("model_type"), "kda");
  EXPECT_EQ(keys.at("architectures"), json::array({"KDAForCausalLM"}));
  EXPECT_EQ(keys.at("dtype"), "bfloat16");
  EXPECT_EQ(keys.at("bos_token_id"), 5);
  EXPECT_EQ(keys.at("eos_token_id"), 2);
  EXPECT_EQ(keys.at("pad_token_id"), 0);
  EXPECT_FALSE(keys.contains("use_osgm"));
}

TEST(HfConfig, token_ids_are_kept) {
  for (const char* type : {"kda", "llama"}) {
    SCOPED_TRACE(type);
    json keys = {{"model_type", type}};
    const auto written = [&] {
      return json::parse(model_to_hf_config(import(keys).model, {}));
    };
    // Missing: what the public classes take.
    EXPECT_EQ(written().at("bos_token_id"), 1);
    EXPECT_EQ(written().at("eos_token_id"), 2);
    EXPECT_EQ(written().at("pad_token_id"), nullptr);
    keys["bos_token_id"] = nullptr;
    keys["eos_token_id"] = 11;
    keys["pad_token_id"] = 0;
    EXPECT_EQ(written().at("bos_token_id"), nullptr);
    EXPECT_EQ(written().at("eos_token_id"), 11);
    EXPECT_EQ(written().at("pad_token_id"), 0);
    keys["pad_token_id"] = -1;
    EXPECT_EQ(written().at("pad_token_id"), nullptr);
    // Several end tokens: osdn has one.
    keys["eos_token_id"] = {9, 12};
    EXPECT_EQ(written().at("eos_token_id"), 9);
    EXPECT_THAT(import(keys).warnings,
                Contains(HasSubstr("eos_token_id is [9,12]")));
    keys["eos_token_id"] = "2";
    EXPECT_THAT(fault(keys), HasSubstr("eos_token_id is \"2\""));
  }
}

// ---- softmax attention
// -------------------------------------------------------

TEST(HfConfig, a_llama_has_the_public_defaults) {
  const ModelConfig model = import({{"model_type", "llama"}}).model;
  EXPECT_TRUE(model.is_transformer());
  EXPECT_EQ(model.vocab_size, 32000);
  EXPECT_EQ(model.hidden_size, 4096);
  EXPECT_EQ(model.mlp_width(), 11008);
  EXPECT_EQ(model.num_layers, 32);
  EXPECT_EQ(model.softmax_heads(), 32);
  EXPECT_EQ(model.softmax_kv_heads(), 32);
  EXPECT_EQ(model.softmax_head_dim(), 128);
  EXPECT_EQ(model.softmax.rope_theta, 10000);
  EXPECT_EQ(model.norm_eps, 1e-6);
  EXPECT_FALSE(model.tie_word_embeddings);
}

TEST(HfConfig, the_rotary_base_stands_in_either_place) {
  const json base = {{"model_type", "llama"}};
  const auto theta = [](const json& keys) {
    return import(keys).model.softmax.rope_theta;
  };
  EXPECT_EQ(theta(with(base, "rope_theta", 500000.0)), 500000);
  EXPECT_EQ(theta(with(base, "rope_parameters", {{"rope_theta", 3000}})), 3000);
  json both = with(base, "rope_theta", 700.0);
  both["rope_parameters"] = {{"rope_type", "default"}};
  EXPECT_EQ(theta(both), 700);
  both["rope_parameters"]["rope_theta"] = 700;
  EXPECT_EQ(theta(both), 700);
  both["rope_parameters"]["rope_theta"] = 800;
  EXPECT_THAT(fault(both), HasSubstr("rope_parameters.rope_theta is 800"));
  EXPECT_EQ(theta(with(base, "rope_scaling", nullptr)), 10000);
}

TEST(HfConfig, llamas_that_osdn_cannot_express_are_refused) {
  const json base = {{"model_type", "llama"}};
  for (const char* place : {"rope_scaling", "rope_parameters"}) {
    for (const char* key : {"rope_type", "type"}) {
      EXPECT_THAT(fault(with(base, place, {{key, "llama3"}, {"factor", 8.0}})),
                  HasSubstr(std::string(place) + "." + key + " is \"llama3\""));
    }
  }
  EXPECT_THAT(
      fault(with(base, "rope_parameters", {{"partial_rotary_factor", 0.5}})),
      HasSubstr("partial_rotary_factor is 0.5"));
  EXPECT_THAT(fault(with(base, "attention_bias", true)),
              HasSubstr("attention_bias is true"));
  EXPECT_THAT(fault(with(base, "mlp_bias", true)),
              HasSubstr("mlp_bias is true"));
  EXPECT_THAT(fault(with(base, "hidden_act", "gelu")),
              HasSubstr("hidden_act is \"gelu\""));
  EXPECT_THAT(fault(with(base, "num_attention_heads", 24)),
              HasSubstr("num_attention_heads is 24"));
  EXPECT_THAT(fault(with(base, "num_key_value_heads", 5)),
              HasSubstr("num_key_value_heads is 5"));
  EXPECT_THAT(fault(with(base, "head_dim", 7)), HasSubstr("head_dim"));
  EXPECT_THAT(
      fault(with(base, "architectures", json::array({"MistralForCausalLM"}))),
      HasSubstr("\"LlamaForCausalLM\""));
  EXPECT_THAT(import(with(base, "attention_dropout", 0.1)).warnings,
              Contains(HasSubstr("attention_dropout")));
}

TEST(HfConfig, a_written_llama_serves_older_and_newer_readers) {
  const ModelConfig model = test::sample_models().at("llama options");
  const json keys = json::parse(model_to_hf_config(model, {}));
  EXPECT_EQ(keys.at("rope_theta"), 500000.5);
  EXPECT_EQ(keys.at("rope_parameters"),
            (json{{"rope_theta", 500000.5}, {"rope_type", "default"}}));
  EXPECT_EQ(keys.at("head_dim"), 6);
  EXPECT_EQ(keys.at("num_attention_heads"), 4);
  EXPECT_EQ(keys.at("num_key_value_heads"), 2);
  EXPECT_EQ(keys.at("architectures"), json::array({"LlamaForCausalLM"}));
  EXPECT_FALSE(keys.contains("attn"));
  EXPECT_FALSE(keys.contains("num_heads"));
}

TEST(HfConfig, hybrids_name_their_softmax_layers) {
  for (const char* type : {"delta_net", "gated_deltanet", "kda"}) {
    SCOPED_TRACE(type);
    const json base = small(type);
    const json attn = {{"layers", {1}}, {"num_heads", 4}};
    const ModelConfig model = import(with(base, "attn", attn)).model;
    EXPECT_FALSE(model.is_softmax(0));
    EXPECT_TRUE(model.is_softmax(1));
    EXPECT_EQ(model.softmax_heads(), 4);
    EXPECT_EQ(model.softmax_kv_heads(), 4);
    EXPECT_EQ(model.softmax_head_dim(), 16);
    EXPECT_EQ(model.softmax.rope_theta, 10000);
    const auto changed = [&](const std::string& key, const json& value) {
      return with(base, "attn", with(attn, key, value));
    };
    EXPECT_EQ(import(changed("num_kv_heads", 2)).model.softmax_kv_heads(), 2);
    EXPECT_EQ(import(changed("rope_theta", 900)).model.softmax.rope_theta, 900);
    EXPECT_NO_THROW(import(changed("window_size", nullptr)));
    EXPECT_THAT(fault(changed("window_size", 2048)),
                AllOf(HasSubstr("attn.window_size is 2048"),
                      HasSubstr("window is not supported")));
    EXPECT_THAT(fault(changed("qkv_bias", true)),
                HasSubstr("attn.qkv_bias is true"));
    EXPECT_THAT(fault(changed("num_heads", 3)),
                HasSubstr("attn.num_heads is 3"));
    EXPECT_THAT(fault(changed("num_kv_heads", 3)),
                HasSubstr("attn.num_kv_heads is 3"));
    EXPECT_THAT(fault(changed("layers", "all")),
                HasSubstr("attn.layers is \"all\""));
    EXPECT_THAT(fault(with(base, "attn", {{"layers", {1}}})),
                HasSubstr("attn.num_heads is missing"));
    EXPECT_THAT(fault(with(base, "attn", {{"num_heads", 4}})),
                HasSubstr("attn.layers is missing"));
    EXPECT_THAT(import(changed("colour", 1)).warnings,
                Contains(HasSubstr("attn.colour is not a key")));
    // The public classes only look whether an index is there.
    const ImportedConfig loose = import(changed("layers", {1, 0, 1, 7}));
    EXPECT_EQ(loose.model.softmax.layers, (std::vector<std::int64_t>{0, 1}));
    EXPECT_THAT(loose.warnings, Contains(HasSubstr("layer 7")));
    EXPECT_EQ(import(changed("layers", json::array())).model.softmax_layers(),
              0);
  }
}

TEST(HfConfig, a_hybrid_with_narrow_heads_is_not_written) {
  ModelConfig model = test::sample_models().at("kda hybrid");
  EXPECT_EQ(hf_model_type(model), "kda");
  model.softmax.head_dim = 6;
  try {
    hf_model_type(model);
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr("model.softmax.head_dim is 6"));
  }
}

TEST(HfConfig, unsupported_features_are_errors_and_never_ignored) {
  const json base = small("delta_net");
  EXPECT_THAT(fault(with(base, "hidden_act", "gelu")),
              AllOf(HasSubstr("folder/config.json: hidden_act is \"gelu\""),
                    HasSubstr("\"swish\"")));
  EXPECT_THAT(fault(with(base, "attn", true)), HasSubstr("attn is true"));
  EXPECT_THAT(fault(with(base, "attnres_block_size", 4)),
              HasSubstr("attnres_block_size is 4"));
  EXPECT_THAT(fault(with(base, "use_l2warp", true)),
              HasSubstr("use_l2warp is true"));
  EXPECT_THAT(fault(with(base, "conv_bias", true)), HasSubstr("conv_bias"));
  EXPECT_THAT(fault(with(base, "qk_norm", "rms")),
              AllOf(HasSubstr("qk_norm is \"rms\""), HasSubstr("\"sum\"")));
  EXPECT_THAT(fault(with(base, "model_type", "mistral")),
              AllOf(HasSubstr("model_type is \"mistral\""),
                    HasSubstr("\"gated_deltanet\""), HasSubstr("\"llama\"")));
  EXPECT_THAT(
      fault(with(base, "architectures", json::array({"LlamaForCausalLM"}))),
      HasSubstr("\"DeltaNetForCausalLM\""));
  EXPECT_THAT(fault(with(small("gated_deltanet"), "use_osgm", true)),
              HasSubstr("use_osgm is true"));
}

TEST(HfConfig, a_gate_of_another_function_is_refused) {
  const json gdn = small("gated_deltanet");
  for (const char* same : {"swish", "silu"}) {
    const auto read = import(with(gdn, "output_gate_activation", same));
    EXPECT_TRUE(read.warnings.empty()) << read.warnings.front();
  }
  EXPECT_THAT(fault(with(gdn, "output_gate_activation", "sigmoid")),
              HasSubstr("output_gate_activation is \"sigmoid\""));
  json ungated = with(gdn, "output_gate_activation", "sigmoid");
  ungated["use_gate"] = false;
  EXPECT_NO_THROW(import(ungated));
}

TEST(HfConfig, a_sum_norm_of_both_signs_is_a_warning) {
  json keys = with(small("delta_net"), "qk_norm", "sum");
  keys["qk_activation"] = "relu";
  EXPECT_TRUE(import(keys).warnings.empty());
  keys["qk_activation"] = "identity";
  EXPECT_THAT(import(keys).warnings, testing::Contains(HasSubstr("sum(x)")));
}

TEST(HfConfig, token_ids_lie_in_the_vocabulary) {
  const ModelConfig model = test::sample_models().at("kda");  // 40 ids
  for (const std::int64_t id : {-2, 40, 5000}) {
    ExportOptions options;
    options.pad_token_id = id;
    EXPECT_THROW(model_to_hf_config(model, options), Error) << id;
  }
  EXPECT_THAT(fault(with(small("kda"), "pad_token_id", 1 << 20)),
              HasSubstr("pad_token_id"));
}

TEST(HfConfig, written_ratios_give_whole_widths) {
  ModelConfig model = test::sample_models().at("delta_net");
  for (const double ratio : {0.55, 1.03, 0.3}) {
    model.hidden_size = 64;
    model.num_heads = 1;
    model.expand_v = model.expand_k = ratio;
    const json keys = json::parse(model_to_hf_config(model, {}));
    for (const char* key : {"expand_k", "expand_v"}) {
      const double width = 64 * keys.at(key).get<double>();
      EXPECT_EQ(width, static_cast<double>(model.value_width())) << key;
    }
  }
}

TEST(HfConfig, all_faults_are_reported_together) {
  json keys = small("delta_net");
  keys["hidden_size"] = "64";
  keys["num_heads"] = 0;
  keys["use_beta"] = 1;
  EXPECT_THAT(fault(keys),
              AllOf(HasSubstr("hidden_size is \"64\""),
                    HasSubstr("num_heads is 0"), HasSubstr("use_beta is 1")));
}

TEST(HfConfig, sizes_that_do_not_divide_are_named) {
  EXPECT_THAT(fault(with(small("delta_net"), "num_heads", 3)),
              HasSubstr("num_heads is 3"));
  EXPECT_THAT(fault(with(small("kda"), "num_v_heads", 3)),
              HasSubstr("num_v_heads is 3"));
  EXPECT_THAT(fault(with(small("gated_deltanet"), "expand_v", 1.03)),
              HasSubstr("expand_v is 1.03"));
  json safe = with(small("kda"), "safe_gate", true);
  EXPECT_THAT(fault(safe), HasSubstr("safe_gate"));
  EXPECT_THAT(fault(with(safe, "lower_bound", -6)), HasSubstr("lower_bound"));
}

TEST(HfConfig, unknown_keys_are_warnings) {
  const ImportedConfig imported =
      import(with(small("kda"), "sparkle_factor", 3));
  EXPECT_THAT(imported.warnings, Contains(HasSubstr("sparkle_factor")));
}

TEST(HfConfig, broken_files_are_errors) {
  EXPECT_THROW(hf_config_to_model("{", "c.json"), Error);
  EXPECT_THROW(hf_config_to_model("[1]", "c.json"), Error);
  EXPECT_THROW(hf_config_to_model("{}", "c.json"), Error);
  try {
    hf_config_to_model(
        R"({"model_type": "kda", "num_heads": 2, "num_heads": 4})", "c.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("num_heads is there twice"));
  }
  EXPECT_THROW(
      hf_config_to_model(R"({"model_type": "kda", "attn": {"layers": [0],
                             "num_heads": 2, "num_heads": 4}})",
                         "c.json"),
      Error);
}

// ---- the traps of layers.md 7 ----------------------------------------------

TEST(HfConfig, T4_osla_without_osgm_is_another_model) {
  const json keys = online_scaled("osla_delta_net");
  EXPECT_NO_THROW(import(keys));
  EXPECT_THAT(
      fault(with(keys, "use_osgm", false)),
      AllOf(HasSubstr("use_osgm is false"), HasSubstr("another model")));
  json absent = keys;
  absent.erase("use_osgm");
  EXPECT_THAT(fault(absent), HasSubstr("use_osgm is missing"));
}

TEST(HfConfig, T5_a_beta_aware_deltanet_is_not_written_as_osla) {
  ModelConfig model = test::sample_models().at("osla_delta_net");
  EXPECT_EQ(hf_model_type(model), "osla_delta_net");
  model.preconditioner.beta_aware = true;
  EXPECT_EQ(hf_model_type(model), "osdn_delta_net");
  const json keys = json::parse(model_to_hf_config(model, {}));
  EXPECT_EQ(keys.at("architectures"), json::array({"OsdnDeltaNetForCausalLM"}));
  EXPECT_EQ(keys.at("osgm_beta_aware"), true);
  EXPECT_TRUE(import(keys).model.preconditioner.beta_aware);
  // Without a learned beta the two steps are one.
  model.use_beta = false;
  EXPECT_EQ(hf_model_type(model), "osla_delta_net");

  ModelConfig negative = test::sample_models().at("osla_delta_net");
  negative.allow_neg_eigval = true;
  EXPECT_EQ(hf_model_type(negative), "osdn_delta_net");
}

TEST(HfConfig, T5_osla_is_beta_free_whatever_its_file_says) {
  const ImportedConfig imported =
      import(with(online_scaled("osla_delta_net"), "osgm_beta_aware", true));
  EXPECT_FALSE(imported.model.preconditioner.beta_aware);
  EXPECT_THAT(imported.warnings, Contains(HasSubstr("osgm_beta_aware")));
}

TEST(HfConfig, T6_nulls_are_the_authors_defaults_with_a_warning) {
  for (const char* type : {"osla_delta_net", "os_gated_deltanet", "kda"}) {
    SCOPED_TRACE(type);
    for (const bool null : {true, false}) {
      json keys = online_scaled(type);
      for (const char* key : {"osgm_eta", "osgm_d_min", "osgm_d_max"}) {
        if (null) {
          keys[key] = nullptr;
        } else {
          keys.erase(key);
        }
      }
      const ImportedConfig imported = import(keys);
      EXPECT_EQ(imported.model.preconditioner.eta, 1);
      EXPECT_EQ(imported.model.preconditioner.d_min, 0);
      EXPECT_EQ(imported.model.preconditioner.d_max, 1e9);
      EXPECT_THAT(imported.warnings, Contains(HasSubstr("osgm_eta")));
      EXPECT_THAT(imported.warnings, Contains(HasSubstr("osgm_d_min")));
      EXPECT_THAT(imported.warnings,
                  Contains(AllOf(HasSubstr("osgm_d_max"), HasSubstr("2026"))));
    }
  }
}

TEST(HfConfig, T6_every_value_is_written) {
  for (const char* name :
       {"osla_delta_net", "osdn_delta_net", "os_gated_deltanet", "os_kda"}) {
    SCOPED_TRACE(name);
    const json keys =
        json::parse(model_to_hf_config(test::sample_models().at(name), {}));
    for (const char* key :
         {"osgm_eta", "osgm_d_min", "osgm_d_max", "osgm_use_denominator",
          "osgm_decay_mode", "osgm_norm", "osgm_d0_init", "osgm_detach"}) {
      ASSERT_TRUE(keys.contains(key)) << key;
      EXPECT_FALSE(keys.at(key).is_null()) << key;
    }
  }
}

TEST(HfConfig, T7_gdn_is_beta_aware_with_post_gate_regret_only) {
  const json keys = online_scaled("os_gated_deltanet");
  EXPECT_FALSE(import(keys).model.preconditioner.beta_aware);
  EXPECT_FALSE(import(with(keys, "osgm_post_gate_regret", false))
                   .model.preconditioner.beta_aware);
  EXPECT_TRUE(import(with(keys, "osgm_post_gate_regret", true))
                  .model.preconditioner.beta_aware);
  const ModelConfig model = test::sample_models().at("os_gated_deltanet");
  EXPECT_EQ(
      json::parse(model_to_hf_config(model, {})).at("osgm_post_gate_regret"),
      model.preconditioner.beta_aware);
}

TEST(HfConfig, T7_os_kda_defaults_to_a_constant_retention) {
  const ImportedConfig imported = import(small("os_kda"));
  const PreconditionerConfig& scale = imported.model.preconditioner;
  EXPECT_TRUE(scale.enabled);
  EXPECT_EQ(scale.retention, Retention::kConstant);
  EXPECT_EQ(scale.retention_value, 0.999);
  EXPECT_EQ(scale.eta, 1);
  EXPECT_EQ(scale.d_min, 0);
  EXPECT_EQ(scale.d_max, 1e9);
  EXPECT_TRUE(scale.beta_aware);
  EXPECT_THAT(imported.warnings, IsEmpty());
}

TEST(HfConfig, T7_kda_with_osgm_is_online_scaled) {
  EXPECT_FALSE(import(small("kda")).model.preconditioner.enabled);
  EXPECT_FALSE(import(with(online_scaled("kda"), "use_osgm", false))
                   .model.preconditioner.enabled);
  json keys = online_scaled("kda");
  keys.erase("osgm_decay_mode");
  const PreconditionerConfig scale = import(keys).model.preconditioner;
  EXPECT_TRUE(scale.enabled);
  EXPECT_EQ(scale.retention, Retention::kNone);
  EXPECT_EQ(scale.eta, 0.5);
  EXPECT_FALSE(import(with(keys, "osgm_beta_aware", false))
                   .model.preconditioner.beta_aware);
}

TEST(HfConfig, T8_the_denominator_adds_and_is_no_floor) {
  const json keys = online_scaled("os_kda");
  const auto norm = [](const json& file) {
    return import(file).model.preconditioner.norm;
  };
  EXPECT_EQ(norm(keys), KeyNorm::kOff);
  EXPECT_EQ(norm(with(keys, "osgm_use_denominator", true)), KeyNorm::kAdd);
  EXPECT_EQ(norm(with(keys, "osgm_use_denominator", nullptr)), KeyNorm::kOff);
  EXPECT_EQ(norm(with(keys, "osgm_norm", "floor")), KeyNorm::kFloor);
  // Without unit keys a null is not certain.
  json sum = online_scaled("osla_delta_net");
  sum["qk_norm"] = "sum";
  EXPECT_NO_THROW(import(sum));
  EXPECT_THAT(fault(with(sum, "osgm_use_denominator", nullptr)),
              HasSubstr("osgm_use_denominator is null"));
  // osdn's floor equals the authors' "off" for unit keys only.
  ModelConfig model = test::sample_models().at("osla_delta_net");
  model.preconditioner.norm = KeyNorm::kFloor;
  EXPECT_EQ(hf_model_type(model), "osla_delta_net");
  EXPECT_EQ(
      json::parse(model_to_hf_config(model, {})).at("osgm_use_denominator"),
      false);
  model.qk_norm = config::QkNorm::kSum;
  EXPECT_EQ(hf_model_type(model), "osdn_delta_net");
}

TEST(HfConfig, T11_ema_modes_and_abandoned_variants_are_refused) {
  const json keys = online_scaled("osla_delta_net");
  EXPECT_THAT(fault(with(keys, "osgm_decay_mode", "ema")),
              AllOf(HasSubstr("osgm_decay_mode is \"ema\""),
                    HasSubstr("\"learnable\"")));
  for (const char* key :
       {"osgm_ema_normalize", "osgm_freeze", "gate_aware_hypergradient",
        "osgm_post_gate_residual", "osgm_post_gate_use_remaining"}) {
    EXPECT_THAT(fault(with(keys, key, true)), HasSubstr(key));
    EXPECT_NO_THROW(import(with(keys, key, false))) << key;
  }
  EXPECT_THAT(fault(with(keys, "osgm_post_gate_clamp_min", 0.1)),
              HasSubstr("osgm_post_gate_clamp_min"));
  EXPECT_THAT(import(with(keys, "osgm_ema_alpha", 0.999)).warnings, IsEmpty());
}

TEST(HfConfig, retention_modes) {
  const auto retention = [](const json& file) {
    return import(file).model.preconditioner.retention;
  };
  json keys = online_scaled("os_gated_deltanet");
  EXPECT_EQ(retention(keys), Retention::kNone);
  EXPECT_EQ(retention(with(keys, "osgm_decay_mode", "learnable")),
            Retention::kPerHead);
  EXPECT_EQ(retention(with(keys, "osgm_decay", true)), Retention::kPerHead);
  keys["osgm_decay_mode"] = "data_dependent";
  EXPECT_EQ(retention(keys), Retention::kDataDependent);
  EXPECT_THAT(fault(with(keys, "osgm_decay", true)), HasSubstr("osgm_decay"));
  EXPECT_EQ(retention(with(keys, "osgm_d_decay_source", "gdn")),
            Retention::kTied);
  keys["osgm_decay_mode"] = "constant";
  keys["osgm_decay_gamma"] = 0.75;
  EXPECT_EQ(import(keys).model.preconditioner.retention_value, 0.75);
  EXPECT_THAT(fault(with(keys, "osgm_decay_gamma", 1.5)),
              HasSubstr("osgm_decay_gamma is 1.5"));
  EXPECT_THAT(
      fault(with(online_scaled("os_kda"), "osgm_decay_mode", "learnable")),
      HasSubstr("osgm_decay_mode is \"learnable\""));
  EXPECT_THAT(
      fault(with(online_scaled("os_kda"), "osgm_d_decay_source", "gdn")),
      HasSubstr("osgm_d_decay_source"));
  ModelConfig kda = test::sample_models().at("os_kda");
  kda.preconditioner.retention = Retention::kPerHead;
  EXPECT_THROW(hf_model_type(kda), Error);
}

}  // namespace
}  // namespace osdn::interchange
