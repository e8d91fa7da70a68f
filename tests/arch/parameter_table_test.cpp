#include "osdn/arch/parameter_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace osdn::arch {
namespace {

using config::LayerKind;
using config::ModelConfig;
using config::Retention;

ModelConfig model_of(LayerKind layer, std::int64_t layers, std::int64_t hidden,
                     std::int64_t heads) {
  ModelConfig model;
  model.layer = layer;
  model.num_layers = layers;
  model.hidden_size = hidden;
  model.num_heads = heads;
  return model;
}

ModelConfig with(ModelConfig model, Retention retention) {
  model.preconditioner.enabled = true;
  model.preconditioner.retention = retention;
  return model;
}

std::int64_t total(const ModelConfig& model) {
  return count_parameters(parameter_table(model)).total;
}

const Parameter& find(const std::vector<Parameter>& table,
                      const std::string& name) {
  const auto found =
      std::find_if(table.begin(), table.end(),
                   [&](const Parameter& p) { return p.name == name; });
  if (found == table.end()) {
    throw std::runtime_error("no parameter " + name);
  }
  return *found;
}

// The table of layers.md section 9: every row, every column.
struct Row {
  std::string label;
  ModelConfig model;
  std::int64_t per_layer;
  std::int64_t plain;
  std::int64_t osdn;  // 0: not in the table
  std::int64_t apf;
};

std::vector<Row> published_rows() {
  auto gdn = [](std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                std::int64_t head_dim) {
    ModelConfig model = model_of(LayerKind::kGdn, layers, hidden, heads);
    model.head_dim = head_dim;
    return model;
  };
  return {
      {"DeltaNet 340M", model_of(LayerKind::kDeltaNet, 24, 1024, 8), 12867712,
       374362112, 374386688, 374583488},
      {"GDN 340M", gdn(21, 1024, 6, 128), 14969100, 379888124, 379904252,
       380033402},
      {"KDA 340M", model_of(LayerKind::kKda, 23, 1024, 8), 13394056, 373600312,
       373623864, 373812464},
      {"DeltaNet 1.3B", model_of(LayerKind::kDeltaNet, 24, 2048, 16), 51441792,
       1365677056, 1365726208, 1366513024},
      {"GDN 1.3B", gdn(21, 2048, 6, 256), 59822604, 1387348732, 1387380988,
       1387639162},
      {"KDA 1.3B", model_of(LayerKind::kKda, 24, 2048, 16), 52494480,
       1390941568, 1390990720, 1391777536},
      {"GDN wide", gdn(21, 1024, 6, 256), 21273100, 512272124, 0, 0},
      {"GDN deep", gdn(24, 2048, 12, 128), 59846936, 1567400512, 0, 0},
  };
}

TEST(ParameterTable, O2_published_totals_are_exact) {
  for (const Row& row : published_rows()) {
    SCOPED_TRACE(row.label);
    EXPECT_EQ(total(row.model), row.plain);
    ModelConfig shallower = row.model;
    shallower.num_layers -= 1;
    EXPECT_EQ(row.plain - total(shallower), row.per_layer);
    if (row.osdn != 0) {
      EXPECT_EQ(total(with(row.model, Retention::kNone)), row.osdn);
      EXPECT_EQ(total(with(row.model, Retention::kDataDependent)), row.apf);
    }
  }
}

TEST(ParameterTable, tied_retention_adds_no_parameter_of_its_own) {
  const ModelConfig gdn = published_rows()[1].model;
  EXPECT_EQ(total(with(gdn, Retention::kTied)), 379904252);
}

TEST(ParameterTable, other_vocabulary) {
  ModelConfig deltanet = published_rows()[0].model;
  deltanet.vocab_size = 50257;
  EXPECT_EQ(total(deltanet), 411752448);
  ModelConfig gdn = published_rows()[6].model;
  gdn.vocab_size = 50257;
  EXPECT_EQ(total(gdn), 549662460);
}

TEST(ParameterTable, tied_embeddings_have_no_head) {
  ModelConfig model = published_rows()[0].model;
  model.tie_word_embeddings = true;
  EXPECT_EQ(total(model), 374362112 - 32000 * 1024);
  for (const Parameter& parameter : parameter_table(model)) {
    EXPECT_NE(parameter.name, "lm_head.weight");
  }
}

TEST(ParameterTable, deltanet_options_change_the_table) {
  const ModelConfig base = published_rows()[0].model;
  ModelConfig gated = base;
  gated.use_gate = true;
  EXPECT_EQ(total(gated) - total(base), 24 * 1024 * 1024);
  ModelConfig without_beta = base;
  without_beta.use_beta = false;
  EXPECT_EQ(total(base) - total(without_beta), 24 * 8 * 1024);
  ModelConfig without_convolution = base;
  without_convolution.use_short_conv = false;
  EXPECT_EQ(total(base) - total(without_convolution), 24 * 4 * 3 * 1024);
}

TEST(ParameterTable, grouped_value_heads) {
  ModelConfig model = model_of(LayerKind::kKda, 1, 64, 2);
  model.head_dim = 16;
  model.num_v_heads = 4;
  const auto table = parameter_table(model);
  using Shape = std::vector<std::int64_t>;
  const std::string prefix = "model.layers.0.attn.";
  EXPECT_EQ(find(table, prefix + "q_proj.weight").shape, (Shape{32, 64}));
  EXPECT_EQ(find(table, prefix + "v_proj.weight").shape, (Shape{64, 64}));
  EXPECT_EQ(find(table, prefix + "b_proj.weight").shape, (Shape{4, 64}));
  EXPECT_EQ(find(table, prefix + "f_proj.1.weight").shape, (Shape{64, 16}));
  EXPECT_EQ(find(table, prefix + "dt_bias").shape, (Shape{64}));
  EXPECT_EQ(find(table, prefix + "A_log").shape, (Shape{4}));
}

TEST(ParameterTable, names_are_unique_and_in_checkpoint_order) {
  for (const Row& row : published_rows()) {
    const auto table =
        parameter_table(with(row.model, Retention::kDataDependent));
    std::set<std::string> names;
    for (const Parameter& parameter : table) {
      EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
    }
    EXPECT_EQ(table.front().name, "model.embeddings.weight");
    EXPECT_EQ(table[table.size() - 2].name, "model.norm.weight");
    EXPECT_EQ(table.back().name, "lm_head.weight");
  }
}

TEST(ParameterTable, R5_gate_parameters_have_their_own_initial_values) {
  const auto gdn = parameter_table(published_rows()[1].model);
  const Parameter& gdn_a = find(gdn, "model.layers.3.attn.A_log");
  EXPECT_EQ(gdn_a.init, Init::kLogUniform);
  EXPECT_EQ(gdn_a.value, 0.0);
  EXPECT_EQ(gdn_a.value2, 16.0);
  const Parameter& dt = find(gdn, "model.layers.3.attn.dt_bias");
  EXPECT_EQ(dt.init, Init::kTimeStep);
  EXPECT_EQ(dt.value, 0.001);
  EXPECT_EQ(dt.value2, 0.1);

  ModelConfig kda = published_rows()[2].model;
  const auto plain_table = parameter_table(kda);
  EXPECT_EQ(find(plain_table, "model.layers.0.attn.A_log").value, 1.0);
  kda.safe_gate = true;
  kda.lower_bound = -5.0;
  const auto safe_table = parameter_table(kda);
  EXPECT_EQ(find(safe_table, "model.layers.0.attn.A_log").init, Init::kZeros);

  ModelConfig apf = with(kda, Retention::kDataDependent);
  apf.preconditioner.d0_init = 0.75;
  apf.preconditioner.retention_bias = 5.5;
  const auto table = parameter_table(apf);
  const Parameter& d0 = find(table, "model.layers.1.attn.initial_scale");
  EXPECT_EQ(d0.init, Init::kConstant);
  EXPECT_EQ(d0.value, 0.75);
  EXPECT_EQ(find(table, "model.layers.1.attn.osgm_a_proj.weight").init,
            Init::kZeros);
  EXPECT_EQ(find(table, "model.layers.1.attn.osgm_a_proj.bias").value, 5.5);
  EXPECT_EQ(find(table, "model.layers.1.attn.g_proj.1.bias").init,
            Init::kZeros);
  EXPECT_EQ(find(table, "model.norm.weight").init, Init::kOnes);
  EXPECT_EQ(find(table, "model.embeddings.weight").init, Init::kNormal);
}

// Every kind of parameter, by the last part of its name.
std::map<std::string, Decay> expected_decay() {
  return {{"model.embeddings.weight", Decay::kOptional},
          {"attn_norm.weight", Decay::kOptional},
          {"mlp_norm.weight", Decay::kOptional},
          {"model.norm.weight", Decay::kOptional},
          {"o_norm.weight", Decay::kOptional},
          {"q_conv1d.weight", Decay::kOptional},
          {"k_conv1d.weight", Decay::kOptional},
          {"v_conv1d.weight", Decay::kOptional},
          {"A_log", Decay::kOptional},
          {"dt_bias", Decay::kOptional},
          {"g_proj.1.bias", Decay::kOptional},
          {"initial_scale", Decay::kNever},
          {"osgm_a_proj.weight", Decay::kNever},
          {"osgm_a_proj.bias", Decay::kNever}};
}

TEST(ParameterTable, R7_decay_groups) {
  std::set<std::string> seen;
  for (const Row& row : published_rows()) {
    for (const Parameter& parameter :
         parameter_table(with(row.model, Retention::kDataDependent))) {
      Decay expected = Decay::kAlways;
      for (const auto& [suffix, decay] : expected_decay()) {
        if (parameter.name.ends_with(suffix)) {
          expected = decay;
          seen.insert(suffix);
        }
      }
      EXPECT_EQ(parameter.decay, expected) << parameter.name;
      EXPECT_EQ(is_decayed(parameter, false), expected != Decay::kNever);
      EXPECT_EQ(is_decayed(parameter, true), expected == Decay::kAlways);
    }
  }
  EXPECT_EQ(seen.size(), expected_decay().size());
}

TEST(ParameterTable, R6_small_parameters_stay_in_fp32) {
  for (const Row& row : published_rows()) {
    for (const Parameter& parameter :
         parameter_table(with(row.model, Retention::kDataDependent))) {
      const bool small = parameter.part == Part::kNorm ||
                         parameter.name.ends_with("A_log") ||
                         parameter.name.ends_with("dt_bias") ||
                         parameter.name.ends_with("initial_scale") ||
                         parameter.name.ends_with("osgm_a_proj.bias");
      EXPECT_EQ(parameter.keep_fp32, small) << parameter.name;
    }
  }
}

TEST(ParameterTable, softmax_layers_have_four_matrices) {
  ModelConfig model = model_of(LayerKind::kKda, 3, 64, 2);
  model.head_dim = 16;
  model.softmax.layers = {0, 2};
  model.softmax.num_heads = 4;
  model.softmax.num_kv_heads = 2;
  model.softmax.head_dim = 8;
  const auto hybrid = parameter_table(model);
  const std::string softmax = "model.layers.2.attn.";
  EXPECT_EQ(find(hybrid, softmax + "q_proj.weight").shape,
            (std::vector<std::int64_t>{32, 64}));
  EXPECT_EQ(find(hybrid, softmax + "k_proj.weight").shape,
            (std::vector<std::int64_t>{16, 64}));
  EXPECT_EQ(find(hybrid, softmax + "v_proj.weight").shape,
            (std::vector<std::int64_t>{16, 64}));
  EXPECT_EQ(find(hybrid, softmax + "o_proj.weight").shape,
            (std::vector<std::int64_t>{64, 32}));
  EXPECT_THROW(find(hybrid, softmax + "A_log"), std::runtime_error);
  EXPECT_NO_THROW(find(hybrid, "model.layers.1.attn.A_log"));
  // The sum of its layers; a transformer has no others.
  ModelConfig delta = model;
  delta.softmax = {};
  ModelConfig transformer = model;
  transformer.layer = LayerKind::kTransformer;
  transformer.softmax.layers.clear();
  EXPECT_EQ(3 * total(model), total(delta) + 2 * total(transformer));
  for (const Parameter& parameter : parameter_table(transformer)) {
    EXPECT_EQ(parameter.keep_fp32, parameter.part == Part::kNorm)
        << parameter.name;
  }
}

TEST(ParameterTable, counts_by_part) {
  const Counts counts = count_parameters(parameter_table(
      with(published_rows()[0].model, Retention::kDataDependent)));
  EXPECT_EQ(counts.of(Part::kEmbedding), 32000 * 1024);
  EXPECT_EQ(counts.of(Part::kHead), 32000 * 1024);
  EXPECT_EQ(counts.of(Part::kAttention), 24 * (4 * 1024 * 1024 + 8 * 1024));
  EXPECT_EQ(counts.of(Part::kConvolution), 24 * 4 * 3 * 1024);
  EXPECT_EQ(counts.of(Part::kPreconditioner), 24 * (8 * 128 + 8 * 1025));
  EXPECT_EQ(counts.of(Part::kMlp), 24 * 3 * 1024 * 2816);
  EXPECT_EQ(counts.of(Part::kNorm), 24 * (2 * 1024 + 128) + 1024);
  std::int64_t sum = 0;
  for (const std::int64_t count : counts.by_part) {
    sum += count;
  }
  EXPECT_EQ(sum, counts.total);
}

TEST(ParameterTable, parts_have_distinct_names) {
  std::set<std::string_view> names;
  for (std::size_t part = 0; part < kNumParts; ++part) {
    names.insert(name_of(static_cast<Part>(part)));
  }
  EXPECT_EQ(names.size(), kNumParts);
  EXPECT_FALSE(names.contains(""));
}

}  // namespace
}  // namespace osdn::arch
