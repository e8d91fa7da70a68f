#include "osdn/config/reference.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "osdn/config/reader.h"
#include "osdn/core/file.h"

namespace osdn::config {
namespace {

const std::string kMinimal = R"({"run_dir": "runs/x",
  "data": {"train": ["data/x"], "validation": ["data/y"]}})";

// For each key a value that is not its default, and what has to be set besides
// for the key to have an effect. A key that is missing here fails the test.
struct Change {
  std::string value;
  std::vector<std::string> setting;
};

std::map<std::string, Change> changes() {
  const std::string gdn = "model.layer=gdn";
  const std::string kda = "model.layer=kda";
  const std::string on = "model.preconditioner={}";
  const std::string hybrid = "model.softmax.layers=[1]";
  const std::string transformer = "model.layer=transformer";
  return {
      {"run_dir", {"runs/y", {}}},
      {"model.layer", {"gdn", {}}},
      {"model.vocab_size", {"100", {}}},
      {"model.hidden_size", {"512", {}}},
      {"model.num_layers", {"2", {}}},
      {"model.num_heads", {"4", {}}},
      {"model.num_v_heads", {"16", {gdn}}},
      {"model.head_dim", {"64", {kda}}},
      {"model.expand_k", {"0.5", {}}},
      {"model.expand_v", {"2", {}}},
      {"model.intermediate_size", {"77", {}}},
      {"model.hidden_ratio", {"3", {}}},
      {"model.use_short_conv", {"false", {}}},
      {"model.conv_size", {"3", {}}},
      {"model.use_beta", {"false", {}}},
      {"model.use_gate", {"true", {}}},
      {"model.allow_neg_eigval", {"true", {}}},
      {"model.qk_activation", {"elu", {}}},
      {"model.qk_norm", {"sum", {}}},
      {"model.safe_gate", {"true", {kda, "model.lower_bound=-4"}}},
      {"model.lower_bound", {"-3", {kda}}},
      {"model.norm_eps", {"1e-5", {}}},
      {"model.initializer_range", {"0.01", {}}},
      {"model.tie_word_embeddings", {"true", {}}},
      {"model.softmax.layers", {"[1, 3]", {}}},
      {"model.softmax.num_heads", {"4", {hybrid}}},
      {"model.softmax.num_kv_heads", {"2", {hybrid}}},
      {"model.softmax.head_dim", {"32", {transformer}}},
      {"model.softmax.rope_theta", {"500000", {transformer}}},
      {"model.token_ids.bos", {"0", {}}},
      {"model.token_ids.eos", {"3", {}}},
      {"model.token_ids.pad", {"0", {}}},
      {"model.preconditioner.preset", {"published-runs", {on}}},
      {"model.preconditioner.eta", {"0.1", {on}}},
      {"model.preconditioner.d_min", {"0.25", {on}}},
      {"model.preconditioner.d_max", {"3", {on}}},
      {"model.preconditioner.beta_aware", {"false", {on}}},
      {"model.preconditioner.norm", {"off", {on}}},
      {"model.preconditioner.d0_init", {"0.75", {on}}},
      {"model.preconditioner.detach", {"true", {on}}},
      {"model.preconditioner.retention", {"data_dependent", {on}}},
      {"model.preconditioner.retention_bias",
       {"3", {on, "model.preconditioner.retention=data_dependent"}}},
      {"model.preconditioner.retention_value",
       {"0.5", {on, "model.preconditioner.retention=constant"}}},
      {"data.train", {"[\"data/z\"]", {}}},
      {"data.validation", {"[\"data/z\"]", {}}},
      {"data.tokenizer", {"t.model", {}}},
      {"data.verify", {"false", {}}},
      {"data.context_length", {"128", {}}},
      {"data.sequence_length", {"8192", {}}},
      {"data.packing", {"stream", {}}},
      {"data.shuffle", {"false", {}}},
      {"data.mask_document_end", {"true", {}}},
      {"data.epochs", {"3", {}}},
      {"data.prefetch_steps", {"5", {}}},
      {"optimizer.lr", {"0.5", {}}},
      {"optimizer.beta1", {"0.8", {}}},
      {"optimizer.beta2", {"0.99", {}}},
      {"optimizer.eps", {"1e-8", {}}},
      {"optimizer.weight_decay", {"0.01", {}}},
      {"optimizer.decay_exempt", {"true", {}}},
      {"optimizer.max_grad_norm", {"0", {}}},
      {"schedule.kind", {"linear", {}}},
      {"schedule.total_steps", {"3000", {}}},
      {"schedule.warmup_steps", {"7", {}}},
      {"schedule.decay_steps", {"9", {"schedule.kind=wsd"}}},
      {"schedule.min_lr_ratio", {"0", {}}},
      {"training.steps", {"11", {}}},
      {"training.global_batch", {"12", {}}},
      {"training.micro_batch", {"2", {}}},
      {"training.seed", {"1", {}}},
      {"training.device", {"cpu", {}}},
      {"training.dtype", {"fp32", {}}},
      {"training.recompute", {"true", {}}},
      {"training.cuda_graph", {"off", {}}},
      {"training.threads", {"2", {}}},
      {"training.validate_every", {"3", {}}},
      {"training.validation_tokens", {"4096", {}}},
      {"training.non_finite", {"stop", {}}},
      {"training.max_skips", {"2", {}}},
      {"checkpoint.every", {"5", {}}},
      {"checkpoint.keep_last", {"1", {}}},
      {"checkpoint.keep_every", {"2000", {}}},
      {"dist.timeout_s", {"5", {}}},
      {"dist.reduce_dtype", {"bf16", {}}},
      {"dist.shard_optimizer", {"false", {}}},
      {"dist.bucket_mb", {"1.5", {}}},
      {"dist.gpu_exchange", {"nccl", {}}},
      {"dist.share_gpus", {"true", {}}},
      {"logging.every", {"2", {}}},
      {"logging.level", {"debug", {}}},
  };
}

TEST(Reference, G4_every_accepted_key_changes_the_resolved_configuration) {
  const std::map<std::string, Change> all = changes();
  for (const KeyInfo& key : known_keys()) {
    ASSERT_TRUE(all.contains(key.path)) << key.path;
    const Change& change = all.at(key.path);
    const Config before = parse(kMinimal, "f", change.setting);
    std::vector<std::string> overrides = change.setting;
    overrides.push_back(key.path + "=" + change.value);
    const Config after = parse(kMinimal, "f", overrides);
    const auto old_json = nlohmann::json::parse(to_json(before));
    const auto new_json = nlohmann::json::parse(to_json(after));
    const nlohmann::json::json_pointer pointer(key.pointer);
    ASSERT_TRUE(new_json.contains(pointer)) << key.path;
    EXPECT_FALSE(old_json.contains(pointer) &&
                 old_json.at(pointer) == new_json.at(pointer))
        << key.path;
  }
  EXPECT_EQ(known_keys().size(), all.size());
}

TEST(Reference, the_resolved_configuration_can_be_loaded_again) {
  std::vector<std::vector<std::string>> settings = {{}};
  for (const auto& [path, change] : changes()) {
    settings.push_back(change.setting);
    settings.back().push_back(path + "=" + change.value);
  }
  settings.push_back({"model.layer=kda", "model.preconditioner={}",
                      "model.preconditioner.preset=published-runs"});
  settings.push_back({"schedule.kind=constant", "data.validation=null"});
  for (const auto& overrides : settings) {
    const std::string text = to_json(parse(kMinimal, "f", overrides));
    EXPECT_EQ(to_json(parse(text, "resolved")), text)
        << (overrides.empty() ? "" : overrides.back());
  }
}

TEST(Reference, the_resolved_configuration_is_sorted) {
  const std::string text = to_json(parse(kMinimal, "f"));
  EXPECT_EQ(nlohmann::json::parse(text).dump(2) + "\n", text);
  EXPECT_LT(text.find("\"checkpoint\""), text.find("\"data\""));
  EXPECT_EQ(text.find("preconditioner"), std::string::npos);
}

TEST(Reference, keys_are_described) {
  std::set<std::string> paths;
  for (const KeyInfo& key : known_keys()) {
    EXPECT_TRUE(paths.insert(key.path).second) << key.path;
    EXPECT_FALSE(key.help.empty()) << key.path;
    EXPECT_TRUE(key.help.ends_with('.')) << key.path;
    EXPECT_FALSE(key.allowed.empty()) << key.path;
    EXPECT_FALSE(key.initial.empty()) << key.path;
    EXPECT_TRUE(key.pointer.starts_with('/')) << key.path;
  }
}

// OSDN_UPDATE_DOCS=1 writes the page instead of comparing it.
TEST(Reference, docs_configuration_md_is_up_to_date) {
  const auto path =
      std::filesystem::path(OSDN_SOURCE_DIR) / "docs/configuration.md";
  if (std::getenv("OSDN_UPDATE_DOCS") != nullptr) {
    write_file_atomic(path, reference_markdown());
  }
  EXPECT_EQ(read_file(path), reference_markdown())
      << "run this test with OSDN_UPDATE_DOCS=1 and commit the page";
}

TEST(Reference, shipped_configurations_are_sound) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(OSDN_SOURCE_DIR) / "configs")) {
    if (entry.path().extension() == ".json") {
      ++files;
      EXPECT_NO_THROW(load({entry.path().string(), {}})) << entry.path();
    }
  }
  EXPECT_GE(files, 30);
}

// The sizes that layers.md section 9 gives a layer.
struct Size {
  LayerKind layer;
  std::int64_t layers, heads, k, v;
};

Size size_of(const std::string& layer, bool big) {
  if (layer == "gdn") {
    return big ? Size{LayerKind::kGdn, 21, 6, 256, 512}
               : Size{LayerKind::kGdn, 21, 6, 128, 256};
  }
  if (layer == "kda") {
    return big ? Size{LayerKind::kKda, 24, 16, 128, 128}
               : Size{LayerKind::kKda, 23, 8, 128, 128};
  }
  return {LayerKind::kDeltaNet, 24, big ? 16 : 8, 128, 128};
}

// DeltaNet's variants have no layer in their names.
std::string name_of(const std::string& size, const std::string& layer,
                    const std::string& variant) {
  if (variant.empty()) return size + "_" + layer;
  return size + (layer == "deltanet" ? "" : "_" + layer) + "_" + variant;
}

void expect_published_recipe(const Config& config, bool big) {
  EXPECT_EQ(config.data.packing, "stream");
  EXPECT_EQ(config.data.sequence_length, 65536);
  EXPECT_EQ(config.data.context_length, 4096);
  EXPECT_EQ(config.training.global_batch, 8);
  EXPECT_EQ(config.training.steps, big ? 190735 : 20480);
  EXPECT_EQ(config.schedule.total_steps, big ? 190735 : 20480);
  EXPECT_EQ(config.schedule.kind, "cosine");
  EXPECT_EQ(config.schedule.warmup_steps, big ? 2048 : 1024);
  EXPECT_EQ(config.schedule.min_lr_ratio, 0.1);
  EXPECT_EQ(config.optimizer.lr, 1e-3);
  EXPECT_EQ(config.optimizer.beta1, 0.9);
  EXPECT_EQ(config.optimizer.beta2, 0.95);
  EXPECT_EQ(config.optimizer.eps, 1e-15);
  EXPECT_EQ(config.optimizer.weight_decay, 0.1);
  EXPECT_FALSE(config.optimizer.decay_exempt);
  EXPECT_EQ(config.optimizer.max_grad_norm, 1.0);
  EXPECT_EQ(config.training.seed, 42U);
}

// Sizes of layers.md section 9, recipe of section 10.
TEST(Reference, published_configurations_have_the_published_recipe) {
  for (const std::string size : {"340m", "1.3b"}) {
    for (const std::string layer : {"deltanet", "gdn", "kda"}) {
      for (const std::string variant : {"", "osdn", "osdn_apf"}) {
        const std::string name = name_of(size, layer, variant);
        SCOPED_TRACE(name);
        const Config config = load(
            {std::string(OSDN_SOURCE_DIR) + "/configs/" + name + ".json", {}});
        const bool big = size == "1.3b";
        const Size expected = size_of(layer, big);
        EXPECT_EQ(config.run_dir, "runs/" + name);
        EXPECT_EQ(config.model.layer, expected.layer);
        EXPECT_EQ(config.model.num_layers, expected.layers);
        EXPECT_EQ(config.model.num_heads, expected.heads);
        EXPECT_EQ(config.model.key_width(), expected.k);
        EXPECT_EQ(config.model.value_width(), expected.v);
        EXPECT_EQ(config.model.hidden_size, big ? 2048 : 1024);
        EXPECT_EQ(config.model.vocab_size, 32000);
        EXPECT_EQ(config.model.mlp_width(), big ? 5632 : 2816);
        EXPECT_EQ(config.model.preconditioner.enabled, !variant.empty());
        EXPECT_EQ(config.model.preconditioner.retention,
                  variant == "osdn_apf" ? Retention::kDataDependent
                                        : Retention::kNone);
        EXPECT_EQ(config.model.preconditioner.eta, 0.003);
        expect_published_recipe(config, big);
      }
    }
  }
}

// The reference beside them: the same width, depth and recipe.
TEST(Reference, transformers_have_the_published_recipe) {
  for (const std::string size : {"340m", "1.3b"}) {
    SCOPED_TRACE(size);
    const std::string name = size + "_transformer";
    const bool big = size == "1.3b";
    const Config config =
        load({std::string(OSDN_SOURCE_DIR) + "/configs/" + name + ".json", {}});
    EXPECT_EQ(config.run_dir, "runs/" + name);
    EXPECT_TRUE(config.model.is_transformer());
    EXPECT_EQ(config.model.num_layers, 24);
    EXPECT_EQ(config.model.hidden_size, big ? 2048 : 1024);
    EXPECT_EQ(config.model.softmax_heads(), big ? 32 : 16);
    EXPECT_EQ(config.model.softmax_kv_heads(), big ? 32 : 16);
    EXPECT_EQ(config.model.softmax_head_dim(), 64);
    EXPECT_EQ(config.model.softmax.rope_theta, 10000);
    EXPECT_EQ(config.model.vocab_size, 32000);
    EXPECT_EQ(config.model.mlp_width(), big ? 5632 : 2816);
    expect_published_recipe(config, big);
  }
}

// The twins differ in the preconditioner and the folder alone.
TEST(Reference, quickstart_twins_differ_in_the_preconditioner_alone) {
  const std::string folder = std::string(OSDN_SOURCE_DIR) + "/configs/";
  auto osdn = nlohmann::json::parse(
      to_json(load({folder + "quickstart_osdn_apf.json", {}})));
  auto plain = nlohmann::json::parse(
      to_json(load({folder + "quickstart_deltanet.json", {}})));
  EXPECT_EQ(osdn["model"].erase("preconditioner"), 1U);
  osdn.erase("run_dir");
  plain.erase("run_dir");
  EXPECT_EQ(osdn, plain);
}

}  // namespace
}  // namespace osdn::config
