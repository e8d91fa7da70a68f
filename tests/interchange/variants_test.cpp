// The reference checkpoints in every form in which others may come: in shards,
// in 16 bits, with a head that is tied or not, with the keys and names of other
// versions, and damaged in every way.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "interchange/sample_models.h"
#include "osdn/checkpoint/weight_files.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/interchange/convert_dtype.h"
#include "osdn/interchange/folders.h"
#include "osdn/interchange/weights.h"
#include "support/program.h"
#include "support/shared_data.h"
#include "support/temp_dir.h"

namespace osdn::interchange {
namespace {

namespace fs = std::filesystem;
using checkpoint::WeightFiles;
using nlohmann::json;
using osdn::test::shared_path;
using osdn::test::TempDir;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

constexpr const char* kProgram = OSDN_BIN_DIR "/osdn-convert";
constexpr const char* kIndex = "model.safetensors.index.json";

/// A public folder in memory: to be changed and written anew.
struct Folder {
  explicit Folder(const fs::path& path)
      : source(path), config(json::parse(read_file(path / "config.json"))) {
    const WeightFiles files(path);
    for (const TensorView& tensor : files.tensors()) add(tensor);
  }

  void add(const TensorView& tensor) {
    const auto* bytes = static_cast<const std::byte*>(tensor.data);
    memory.emplace_back(bytes, bytes + tensor.bytes());
    tensors.push_back(tensor);
    tensors.back().data = memory.back().data();
  }
  TensorView& at(const std::string& name) {
    for (TensorView& tensor : tensors) {
      if (tensor.name == name) return tensor;
    }
    throw std::runtime_error("no tensor " + name);
  }
  void remove(const std::string& name) {
    std::erase_if(tensors, [&](const auto& t) { return t.name == name; });
  }
  void cast(DType dtype) {
    for (TensorView& tensor : tensors) {
      memory.push_back(convert(tensor, dtype));
      tensor.dtype = dtype;
      tensor.data = memory.back().data();
    }
  }
  std::string embedding() const {
    return config.at("model_type") == "llama" ? "model.embed_tokens.weight"
                                              : "model.embeddings.weight";
  }

  void write_all_but_weights(const fs::path& to) const {
    fs::create_directories(to);
    write_file_atomic(to / "config.json", config.dump(2));
    fs::copy_file(source / "expected.safetensors", to / "expected.safetensors",
                  fs::copy_options::overwrite_existing);
  }
  void write(const fs::path& to) const {
    write_all_but_weights(to);
    checkpoint::write_safetensors(to / "model.safetensors", tensors);
  }
  /// Dealt out to three files, neighbours apart, with an index.
  json write_shards(const fs::path& to) const {
    write_all_but_weights(to);
    json map = json::object();
    std::uint64_t bytes = 0;
    for (std::size_t shard = 0; shard < 3; ++shard) {
      std::vector<TensorView> part;
      const std::string name =
          "model-0000" + std::to_string(shard + 1) + "-of-00003.safetensors";
      for (std::size_t i = shard; i < tensors.size(); i += 3) {
        part.push_back(tensors[i]);
        map[tensors[i].name] = name;
        bytes += tensors[i].bytes();
      }
      checkpoint::write_safetensors(to / name, part);
    }
    json index = {{"metadata", {{"total_size", bytes}}}, {"weight_map", map}};
    write_file_atomic(to / kIndex, index.dump(2));
    return index;
  }

  fs::path source;
  json config;
  std::vector<TensorView> tensors;
  std::deque<std::vector<std::byte>> memory;
};

/// What from_hf says; "" when it takes the folder.
std::string refusal(const fs::path& folder, const fs::path& to) {
  try {
    from_hf({folder, to});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput) << error.what();
    return error.what();
  }
  fs::remove_all(to);
  return "";
}

class Variant : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    OSDN_NEEDS_SHARED(std::string("golden/hf/") + GetParam());
  }
  static Folder original() {
    return Folder(shared_path("golden/hf") / GetParam());
  }
  /// Exit status of osdn-convert check; what it says is in said_.
  int check(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {kProgram, "check", theirs_.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    osdn::test::Program program(arguments);
    const int code = program.wait();
    said_ = program.out() + program.err();
    return code;
  }
  std::string refused(const Folder& folder) {
    fs::remove_all(theirs_);
    folder.write(theirs_);
    return refusal(theirs_, ours_);
  }
  TempDir dir_{TempDir::memory()};
  fs::path theirs_ = dir_ / "theirs";
  fs::path ours_ = dir_ / "ours";
  std::string said_;
};

TEST_P(Variant, T1_shards_are_the_same_model) {
  original().write_shards(theirs_);
  EXPECT_EQ(check(), 0) << said_;
  EXPECT_EQ(refusal(theirs_, ours_), "");
}

TEST_P(Variant, T1_an_index_that_is_wrong_is_refused) {
  const json index = original().write_shards(theirs_);
  const std::string name = index.at("weight_map").begin().key();
  const auto with = [&](const std::function<void(json&)>& change) {
    json changed = index;
    change(changed.at("weight_map"));
    write_file_atomic(theirs_ / kIndex, changed.dump());
    return refusal(theirs_, ours_);
  };
  EXPECT_EQ(with([](json&) {}), "");
  EXPECT_THAT(with([&](json& map) { map.erase(name); }), HasSubstr(name));
  EXPECT_THAT(with([&](json& map) {
                map[name] = map.at(name) == "model-00001-of-00003.safetensors"
                                ? "model-00002-of-00003.safetensors"
                                : "model-00001-of-00003.safetensors";
              }),
              HasSubstr(name));
  EXPECT_THAT(with([&](json& map) { map["model.ghost"] = map.at(name); }),
              HasSubstr("model.ghost"));
  EXPECT_THAT(with([&](json& map) { map[name] = "other.safetensors"; }),
              HasSubstr(name));
  EXPECT_THAT(with([](json& map) {
                for (json& file : map) file = "other.safetensors";
              }),
              HasSubstr("other.safetensors"));
  EXPECT_THAT(with([&](json& map) { map[name] = "../model.safetensors"; }),
              HasSubstr("../model.safetensors"));
  EXPECT_THAT(with([&](json& map) { map = json::array(); }),
              HasSubstr("weight_map"));
}

TEST_P(Variant, T3_sixteen_bits_are_read_and_compute_nearly_the_same) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    SCOPED_TRACE(name_of(dtype));
    Folder folder = original();
    folder.cast(dtype);
    folder.config["dtype"] = dtype == DType::kBF16 ? "bfloat16" : "float16";
    fs::remove_all(theirs_);
    folder.write_shards(theirs_);
    // A weight in bf16 is off by up to 0.2 %, in f16 by up to 0.03 %.
    EXPECT_EQ(check({"--tolerance", dtype == DType::kBF16 ? "0.05" : "0.01"}),
              0)
        << said_;
    EXPECT_EQ(check(), 1) << said_;
    EXPECT_EQ(refusal(theirs_, ours_), "");
  }
}

TEST_P(Variant, T2_heads_tied_or_not) {
  Folder folder = original();
  const bool tied = folder.config.at("tie_word_embeddings");
  TensorView copy = folder.at(folder.embedding());
  copy.name = "lm_head.weight";
  folder.remove("lm_head.weight");
  EXPECT_THAT(refused(folder),
              HasSubstr(tied ? "" : "missing: lm_head.weight"));
  folder.config["tie_word_embeddings"] = true;
  EXPECT_EQ(refused(folder), "");
  check();
  const std::string without_head = said_;
  EXPECT_THAT(without_head, HasSubstr("logits relative RMS"));
  // An identical head beside the embedding says nothing new.
  folder.add(copy);
  EXPECT_EQ(refused(folder), "");
  check();
  EXPECT_EQ(said_, without_head);
  // Untied, the same head is a weight of its own.
  folder.config["tie_word_embeddings"] = false;
  EXPECT_EQ(refused(folder), "");
  check();
  EXPECT_EQ(said_, without_head);
  // Tied and different is a contradiction.
  folder.config["tie_word_embeddings"] = true;
  static_cast<float*>(folder.at("lm_head.weight").data)[3] += 1;
  EXPECT_THAT(refused(folder), AllOf(HasSubstr("lm_head.weight differs from"),
                                     HasSubstr(folder.embedding())));
}

// Each tensor in turn: left out, renamed, reshaped, not finite.
TEST_P(Variant, every_tensor_is_checked) {
  const Folder sound = original();
  for (const TensorView& tensor : sound.tensors) {
    const std::string& name = tensor.name;
    if (name.find(".layers.1.") != std::string::npos) continue;
    SCOPED_TRACE(name);
    Folder folder = original();
    folder.remove(name);
    EXPECT_THAT(refused(folder), HasSubstr("missing: " + name));
    TensorView other = tensor;
    other.name += "_";
    folder.add(other);
    EXPECT_THAT(refused(folder),
                AllOf(HasSubstr("missing: " + name),
                      HasSubstr("not of this model: " + other.name)));
    folder.remove(other.name);
    other = tensor;
    other.shape.front() -= 1;
    folder.add(other);
    EXPECT_THAT(refused(folder), HasSubstr("shape of " + name + " is"));
    folder.remove(name);
    other = tensor;
    other.shape.insert(other.shape.begin(), 1);
    folder.add(other);
    EXPECT_THAT(refused(folder), HasSubstr("shape of " + name + " is"));
    folder.remove(name);
    folder.add(tensor);
    static_cast<float*>(folder.at(name).data)[0] =
        std::numeric_limits<float>::quiet_NaN();
    EXPECT_THAT(refused(folder), HasSubstr("not finite: " + name));
  }
}

TEST_P(Variant, unknown_keys_warn_and_wrong_types_do_not_pass) {
  const json keys = original().config;
  json more = keys;
  more["a_key_of_tomorrow"] = 1;
  EXPECT_THAT(hf_config_to_model(more.dump(), "c").warnings,
              Contains(HasSubstr("a_key_of_tomorrow")));
  for (const char* key : {"hidden_size", "vocab_size", "num_hidden_layers",
                          "initializer_range", "tie_word_embeddings"}) {
    for (const json& value : {json("64"), json::array({64}), json(-1)}) {
      json wrong = keys;
      wrong[key] = value;
      try {
        hf_config_to_model(wrong.dump(), "c");
        ADD_FAILURE() << key << " " << value;
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr(key));
      }
    }
  }
}

// Each key by itself: missing, it means the public default, so that the model
// is the same where the file has just that.
TEST_P(Variant, keys_at_their_default_may_be_missing) {
  const json keys = original().config;
  const auto described = [](const json& file) {
    return test::described(hf_config_to_model(file.dump(), "c").model);
  };
  const std::string whole = described(keys);
  for (const char* key : {"architectures",      "dtype",
                          "use_cache",          "attn_mode",
                          "fuse_norm",          "fuse_swiglu",
                          "fuse_cross_entropy", "transformers_version",
                          "use_output_norm",    "attention_bias",
                          "attention_dropout",  "mlp_bias",
                          "pretraining_tp",     "attn",
                          "attnres_block_size", "hidden_act",
                          "use_l2warp",         "use_short_conv",
                          "conv_size",          "norm_eps",
                          "rms_norm_eps",       "allow_neg_eigval",
                          "hidden_ratio",       "qk_norm",
                          "qk_activation",      "use_beta",
                          "num_v_heads",        "bos_token_id",
                          "eos_token_id",       "pad_token_id",
                          "rope_parameters",    "osgm_decay",
                          "osgm_ema_alpha",     "osgm_use_denominator"}) {
    json fewer = keys;
    fewer.erase(key);
    EXPECT_EQ(described(fewer), whole) << key;
  }
  // These do say something here.
  for (const char* key : {"hidden_size", "num_hidden_layers", "vocab_size"}) {
    json fewer = keys;
    fewer.erase(key);
    std::string got;
    try {
      got = described(fewer);
    } catch (const Error& error) {
      got = error.what();
    }
    EXPECT_NE(got, whole) << key;
  }
}

TEST_P(Variant, names_of_older_versions) {
  Folder folder = original();
  json& keys = folder.config;
  keys["torch_dtype"] = keys.at("dtype");
  keys.erase("dtype");
  if (keys.at("model_type") == "osla_delta_net") {
    keys["architectures"] = {"OSLAForCausalLM"};
  }
  if (keys.at("model_type") == "llama") {
    keys["rope_theta"] = keys.at("rope_parameters").at("rope_theta");
    keys["rope_scaling"] = nullptr;
    keys.erase("rope_parameters");
    keys.erase("head_dim");
    std::vector<float> table;
    for (int i = 0; i < 8; ++i) {
      table.push_back(static_cast<float>(std::pow(10000.0, -i / 8.0)));
    }
    for (const char* layer : {"0", "1"}) {
      folder.add({std::string("model.layers.") + layer +
                      ".self_attn.rotary_emb.inv_freq",
                  DType::kF32,
                  {8},
                  table.data()});
    }
  }
  folder.write(theirs_);
  EXPECT_EQ(check(), 0) << said_;
}

TEST_P(Variant, token_ids_go_in_and_come_out) {
  Folder folder = original();
  folder.config["bos_token_id"] = 11;
  folder.config["eos_token_id"] = nullptr;
  folder.config["pad_token_id"] = 0;
  folder.write(theirs_);
  from_hf({theirs_, ours_});
  const auto written = [&](const char* name, const ExportOptions& options) {
    to_hf({ours_, dir_ / name, 0, options});
    return json::parse(read_file(dir_ / name / "config.json"));
  };
  const json again = written("again", {});
  EXPECT_EQ(again.at("bos_token_id"), 11);
  EXPECT_EQ(again.at("eos_token_id"), nullptr);
  EXPECT_EQ(again.at("pad_token_id"), 0);
  // Those that are given win.
  ExportOptions options;
  options.bos_token_id = 5;
  options.pad_token_id = -1;
  const json given = written("given", options);
  EXPECT_EQ(given.at("bos_token_id"), 5);
  EXPECT_EQ(given.at("eos_token_id"), nullptr);
  EXPECT_EQ(given.at("pad_token_id"), nullptr);
}

INSTANTIATE_TEST_SUITE_P(
    Checkpoints, Variant,
    testing::Values("delta_net", "delta_net_gated_tied", "gated_deltanet",
                    "kda", "kda_bounded", "llama", "os_gated_deltanet_tied",
                    "os_kda_apf", "osla_delta_net", "osla_delta_net_apf"),
    [](const auto& one) { return std::string(one.param); });

}  // namespace
}  // namespace osdn::interchange
