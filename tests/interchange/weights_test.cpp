#include "osdn/interchange/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "interchange/sample_models.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/interchange/convert_dtype.h"
#include "support/temp_dir.h"

namespace osdn::interchange {
namespace {

namespace fs = std::filesystem;
using checkpoint::WeightFiles;
using config::ModelConfig;
using config::Retention;
using nlohmann::json;
using osdn::test::TempDir;
using test::SampleWeights;
using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string kAttn = "model.layers.0.attn.";

ImportedConfig imported(const ModelConfig& model) {
  return hf_config_to_model(model_to_hf_config(model, {}), "config.json");
}

class Weights : public testing::Test {
 protected:
  /// The weights as model.safetensors of the folder, opened.
  WeightFiles stored(SampleWeights& weights) {
    checkpoint::write_safetensors(dir_ / "model.safetensors", weights.views());
    return WeightFiles(dir_.path());
  }
  std::string fault(SampleWeights& weights, const ModelConfig& model) {
    ImportedConfig config = imported(model);
    const WeightFiles files = stored(weights);
    try {
      import_weights(files, config, DType::kF32);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      return error.what();
    }
    ADD_FAILURE() << "nothing thrown";
    return {};
  }
  TempDir dir_{TempDir::memory()};
};

const TensorView& find(const TensorSet& set, const std::string& name) {
  for (const TensorView& view : set.views()) {
    if (view.name == name) return view;
  }
  throw std::runtime_error("no tensor " + name);
}

std::vector<float> floats(const TensorView& view) {
  const std::vector<std::byte> bytes = convert(view, DType::kF32);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

void expect_same(const TensorView& a, const TensorView& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.dtype, b.dtype) << a.name;
  ASSERT_EQ(a.shape, b.shape) << a.name;
  EXPECT_EQ(std::memcmp(a.data, b.data, a.bytes()), 0) << a.name;
}

// Out and in again, for every kind of model: not a bit changes.
TEST_F(Weights, every_model_comes_back_to_the_bit) {
  for (const auto& [name, model] : test::sample_models()) {
    SCOPED_TRACE(name);
    const TempDir ours(TempDir::memory());
    const TempDir theirs(TempDir::memory());
    SampleWeights sample(model);
    checkpoint::write_safetensors(ours / "model.safetensors", sample.views());
    const WeightFiles before(ours.path());
    write_weights(theirs.path(), export_weights(before, model, DType::kF32), 0);
    const WeightFiles written(theirs.path());
    ImportedConfig config = imported(model);
    const TensorSet after = import_weights(written, config, DType::kF32);
    EXPECT_THAT(config.warnings, IsEmpty());
    EXPECT_EQ(test::described(config.model), test::described(model));
    ASSERT_EQ(after.views().size(), before.tensors().size());
    for (const TensorView& tensor : after.views()) {
      expect_same(tensor, before.tensor(tensor.name));
    }
  }
}

TEST_F(Weights, every_fault_is_named_in_one_error) {
  const ModelConfig model = test::sample_models().at("gated_deltanet");
  SampleWeights sample(model);
  sample.remove(kAttn + "A_log");
  sample.add(kAttn + "q_proj.weight", {16, 31});
  sample.add(kAttn + "D", {2});
  sample.values("model.norm.weight")[3] =
      std::numeric_limits<float>::quiet_NaN();
  sample.values("lm_head.weight")[5] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(
      fault(sample, model),
      AllOf(HasSubstr("missing: " + kAttn + "A_log [2]"),
            HasSubstr(kAttn + "q_proj.weight is [16, 31], expected [16, 32]"),
            HasSubstr("not of this model: " + kAttn + "D [2]"),
            HasSubstr("not finite: model.norm.weight has nan at element 3"),
            HasSubstr("lm_head.weight has inf at element 5"),
            HasSubstr("model.safetensors")));
}

TEST_F(Weights, integers_are_no_weights) {
  const ModelConfig model = test::sample_models().at("delta_net");
  SampleWeights sample(model);
  std::vector<TensorView> views = sample.views();
  std::vector<std::int32_t> numbers(32, 1);
  for (TensorView& view : views) {
    if (view.name == "model.norm.weight") {
      view.dtype = DType::kI32;
      view.data = numbers.data();
    }
  }
  checkpoint::write_safetensors(dir_ / "model.safetensors", views);
  ImportedConfig config = imported(model);
  const WeightFiles files(dir_.path());
  EXPECT_THROW(import_weights(files, config, std::nullopt), Error);
}

TEST_F(Weights, T1_metadata_says_pt_and_shards_have_an_index) {
  const ModelConfig model = test::sample_models().at("kda");
  SampleWeights sample(model);
  const WeightFiles before = stored(sample);
  const TensorSet weights = export_weights(before, model, DType::kF32);

  const TempDir single(TempDir::memory());
  EXPECT_EQ(write_weights(single.path(), weights, 0),
            std::vector<std::string>{"model.safetensors"});
  EXPECT_EQ(WeightFiles(single.path()).metadata().at("format"), "pt");

  const TempDir shards(TempDir::memory());
  constexpr std::uint64_t kLimit = 8000;
  const std::vector<std::string> names =
      write_weights(shards.path(), weights, kLimit);
  ASSERT_GT(names.size(), 3U);
  EXPECT_EQ(names.back(), "model.safetensors.index.json");
  EXPECT_FALSE(fs::exists(shards / "model.safetensors"));
  const json index = json::parse(read_file(shards / names.back()));
  std::uint64_t bytes = 0;
  std::set<std::string> seen;
  for (std::size_t i = 0; i + 1 < names.size(); ++i) {
    const checkpoint::SafetensorsFile file(shards / names[i]);
    EXPECT_EQ(file.metadata().at("format"), "pt");
    std::uint64_t in_file = 0;
    for (const TensorView& tensor : file.tensors()) {
      EXPECT_EQ(index.at("weight_map").at(tensor.name), names[i]);
      EXPECT_TRUE(seen.insert(tensor.name).second);
      in_file += tensor.bytes();
    }
    EXPECT_TRUE(in_file <= kLimit || file.tensors().size() == 1) << names[i];
    bytes += in_file;
  }
  EXPECT_EQ(index.at("metadata").at("total_size"), bytes);
  EXPECT_EQ(seen.size(), weights.views().size());

  const WeightFiles files(shards.path());
  ImportedConfig config = imported(model);
  const TensorSet after = import_weights(files, config, DType::kF32);
  for (const TensorView& tensor : after.views()) {
    expect_same(tensor, before.tensor(tensor.name));
  }
}

TEST_F(Weights, T2_a_tied_head_is_absent_or_identical) {
  const ModelConfig model = test::sample_models().at("delta_net options");
  ASSERT_TRUE(model.tie_word_embeddings);
  SampleWeights sample(model);
  {
    const WeightFiles files = stored(sample);
    ImportedConfig config = imported(model);
    EXPECT_NO_THROW(import_weights(files, config, DType::kF32));
    const TensorSet written = export_weights(files, model, DType::kF32);
    for (const TensorView& tensor : written.views()) {
      EXPECT_NE(tensor.name, "lm_head.weight");
    }
  }
  sample.add("lm_head.weight", {40, 32});
  sample.values("lm_head.weight") = sample.values("model.embeddings.weight");
  {
    const WeightFiles files = stored(sample);
    ImportedConfig config = imported(model);
    const TensorSet weights = import_weights(files, config, DType::kF32);
    for (const TensorView& tensor : weights.views()) {
      EXPECT_NE(tensor.name, "lm_head.weight");
    }
  }
  sample.values("lm_head.weight")[7] += 1;
  EXPECT_THAT(fault(sample, model),
              HasSubstr("lm_head.weight differs from model.embeddings.weight"));
  // A model that is not tied needs its head.
  const ModelConfig untied = test::sample_models().at("delta_net");
  SampleWeights headless(untied);
  headless.remove("lm_head.weight");
  EXPECT_THAT(fault(headless, untied), HasSubstr("missing: lm_head.weight"));
}

TEST_F(Weights, a_llama_has_names_of_its_own) {
  const ModelConfig model = test::sample_models().at("llama");
  SampleWeights sample(model);
  const WeightFiles ours = stored(sample);
  const TensorSet written = export_weights(ours, model, DType::kF32);
  std::set<std::string> names;
  for (const TensorView& tensor : written.views()) {
    if (tensor.name.find(".layers.1.") == std::string::npos) {
      names.insert(tensor.name);
    }
  }
  const std::string layer = "model.layers.0.";
  EXPECT_EQ(
      names,
      (std::set<std::string>{
          "model.embed_tokens.weight", layer + "input_layernorm.weight",
          layer + "self_attn.q_proj.weight", layer + "self_attn.k_proj.weight",
          layer + "self_attn.v_proj.weight", layer + "self_attn.o_proj.weight",
          layer + "post_attention_layernorm.weight",
          layer + "mlp.gate_proj.weight", layer + "mlp.up_proj.weight",
          layer + "mlp.down_proj.weight", "model.norm.weight",
          "lm_head.weight"}));
  // Its faults are told in the names of its files.
  EXPECT_THAT(fault(sample, model),
              AllOf(HasSubstr("missing: model.embed_tokens.weight [40, 32]"),
                    HasSubstr("not of this model: model.embeddings.weight")));
}

// Files of older versions hold the rotary positions' table.
TEST_F(Weights, a_rotary_table_must_be_that_of_the_configuration) {
  const ModelConfig model = test::sample_models().at("llama");
  SampleWeights sample(model);
  const WeightFiles ours = stored(sample);
  const TensorSet theirs = export_weights(ours, model, DType::kF32);
  const auto import_with = [&](const std::vector<float>& table) {
    const TempDir folder(TempDir::memory());
    std::vector<TensorView> views = theirs.views();
    std::vector<float> held = table;
    views.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq",
                     DType::kF32,
                     {std::ssize(held)},
                     held.data()});
    checkpoint::write_safetensors(folder / "model.safetensors", views);
    const WeightFiles files(folder.path());
    ImportedConfig config = imported(model);
    import_weights(files, config, DType::kF32);
  };
  EXPECT_NO_THROW(import_with({1.0F, 0.1F, 0.01F, 0.001F}));
  EXPECT_NO_THROW(import_with({1.0F, 0.10009765625F, 0.010009765F, 0.001F}));
  EXPECT_THROW(import_with({1.0F, 0.2F, 0.04F, 0.008F}), Error);
  EXPECT_THROW(import_with({1.0F, 0.1F}), Error);
}

TEST_F(Weights, T3_gate_parameters_stay_f32_and_are_read_in_any_type) {
  for (const char* name :
       {"kda", "os_gated_deltanet apf", "os_gated_deltanet per head"}) {
    SCOPED_TRACE(name);
    const ModelConfig model = test::sample_models().at(name);
    SampleWeights sample(model);
    const WeightFiles before = stored(sample);
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      const TensorSet written = export_weights(before, model, dtype);
      for (const TensorView& tensor : written.views()) {
        const bool f32 = tensor.name.ends_with(".A_log") ||
                         tensor.name.ends_with(".dt_bias") ||
                         tensor.name.ends_with(".initial_scale") ||
                         tensor.name.ends_with(".osgm_gamma_log") ||
                         tensor.name.ends_with(".osgm_a_proj.bias");
        EXPECT_EQ(tensor.dtype, f32 ? DType::kF32 : dtype) << tensor.name;
      }
      // transformers rounds all of them when it is asked for bf16.
      const TempDir folder(TempDir::memory());
      std::vector<TensorView> views = written.views();
      std::vector<std::vector<std::byte>> held;
      for (TensorView& tensor : views) {
        held.push_back(convert(tensor, dtype));
        tensor = {tensor.name, dtype, tensor.shape, held.back().data()};
      }
      checkpoint::write_safetensors(folder / "model.safetensors", views);
      const WeightFiles files(folder.path());
      ImportedConfig config = imported(model);
      const TensorSet after = import_weights(files, config, DType::kF32);
      for (const TensorView& tensor : after.views()) {
        EXPECT_EQ(tensor.dtype, DType::kF32);
        const std::vector<float> values = floats(tensor);
        const std::vector<float>& exact = sample.values(tensor.name);
        for (std::size_t i = 0; i < values.size(); ++i) {
          EXPECT_EQ(values[i], dtype == DType::kBF16
                                   ? from_bf16(to_bf16(exact[i]))
                                   : from_f16(to_f16(exact[i])))
              << tensor.name;
        }
      }
    }
  }
}

TEST_F(Weights, T9_gates_of_one_row_a_key_head_are_repeated) {
  ModelConfig model =
      test::scaled(config::LayerKind::kKda, Retention::kDataDependent);
  model.num_v_heads = 6;  // three value heads a key head
  const std::int64_t H = 2, K = 8, V = 8, h = 32;
  SampleWeights shared(model);
  for (int layer = 0; layer < 2; ++layer) {
    const std::string attn = "model.layers." + std::to_string(layer) + ".attn.";
    shared.add(attn + "b_proj.weight", {H, h});
    shared.add(attn + "f_proj.1.weight", {H * K, V});
    shared.add(attn + "A_log", {H});
    shared.add(attn + "dt_bias", {H * K});
    shared.add(attn + "osgm_a_proj.weight", {H, h});
    shared.add(attn + "osgm_a_proj.bias", {H});
  }
  const WeightFiles files = stored(shared);
  ImportedConfig config = imported(model);
  const TensorSet repeated = import_weights(files, config, DType::kF32);
  // Value head j takes key head floor(j H / HV).
  const auto expect_repeated = [&](const std::string& name, std::int64_t rows,
                                   std::int64_t width) {
    const TensorView& tensor = find(repeated, kAttn + name);
    ASSERT_EQ(tensor.shape.front(), 6 * rows) << name;
    const std::vector<float> got = floats(tensor);
    const std::vector<float>& source = shared.values(kAttn + name);
    for (std::int64_t j = 0; j < 6; ++j) {
      for (std::int64_t i = 0; i < rows * width; ++i) {
        EXPECT_EQ(got[static_cast<std::size_t>(j * rows * width + i)],
                  source[static_cast<std::size_t>(j / 3 * rows * width + i)])
            << name << " head " << j;
      }
    }
  };
  expect_repeated("b_proj.weight", 1, h);
  expect_repeated("f_proj.1.weight", K, V);
  expect_repeated("A_log", 1, 1);
  expect_repeated("dt_bias", K, 1);
  expect_repeated("osgm_a_proj.weight", 1, h);
  expect_repeated("osgm_a_proj.bias", 1, 1);

  // Written again, they are once a key head, as they were.
  const TempDir folder(TempDir::memory());
  checkpoint::write_safetensors(folder / "model.safetensors", repeated.views());
  const WeightFiles ours(folder.path());
  const TensorSet written = export_weights(ours, model, DType::kF32);
  for (const TensorView& tensor : written.views()) {
    expect_same(tensor, files.tensor(tensor.name));
  }
}

TEST_F(Weights, T9_gates_that_differ_in_a_group_cannot_be_shared) {
  ModelConfig model = test::scaled(config::LayerKind::kKda, Retention::kNone);
  model.num_v_heads = 4;
  SampleWeights sample(model);
  const WeightFiles files = stored(sample);
  try {
    export_weights(files, model, DType::kF32);
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.what(), HasSubstr(kAttn + "b_proj.weight"));
  }
  // The plain KDA has them once a value head.
  model.preconditioner.enabled = false;
  SampleWeights plain(model);
  const WeightFiles plain_files = stored(plain);
  EXPECT_EQ(find(export_weights(plain_files, model, DType::kF32),
                 kAttn + "b_proj.weight")
                .shape,
            (std::vector<std::int64_t>{4, 32}));
}

TEST_F(Weights, T10_T12_states_and_optimizers_are_not_weights) {
  const ModelConfig model = test::sample_models().at("kda");
  for (const char* name : {"model.layers.0.attn.recurrent_state",
                           "optimizer.exp_avg.model.norm.weight"}) {
    SampleWeights sample(model);
    sample.add(name, {4, 8});
    EXPECT_THAT(fault(sample, model),
                HasSubstr(std::string("not of this model: ") + name));
  }
}

TEST_F(Weights, a_stored_retention_wins_over_the_constant_of_the_file) {
  const ModelConfig model =
      test::sample_models().at("os_gated_deltanet constant");
  const double r = model.preconditioner.retention_value;
  SampleWeights sample(model);
  const WeightFiles ours = stored(sample);
  {
    const TensorSet written = export_weights(ours, model, DType::kF32);
    for (const float value : floats(find(written, kAttn + "osgm_gamma_log"))) {
      EXPECT_NEAR(1 / (1 + std::exp(-static_cast<double>(value))), r, 1e-7);
    }
  }
  for (int layer = 0; layer < 2; ++layer) {
    sample.add("model.layers." + std::to_string(layer) + ".attn.osgm_gamma_log",
               {2});
  }
  const WeightFiles theirs = stored(sample);
  ImportedConfig config = imported(model);
  const TensorSet weights = import_weights(theirs, config, DType::kF32);
  EXPECT_EQ(config.model.preconditioner.retention, Retention::kPerHead);
  EXPECT_THAT(config.warnings, Contains(HasSubstr("osgm_gamma_log")));
  EXPECT_EQ(floats(find(weights, kAttn + "osgm_gamma_log")),
            sample.values(kAttn + "osgm_gamma_log"));
}

}  // namespace
}  // namespace osdn::interchange
