// Properties of the whole model: gradients against finite differences,
// documents kept apart, sequences cut anywhere, initial values.

#include "osdn/model/language_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/softplus.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "osdn/core/random.h"

namespace osdn::model {
namespace {

using config::LayerKind;
using config::ModelConfig;
using config::Retention;
using config::SoftmaxConfig;

ModelConfig tiny(LayerKind layer, bool osdn, Retention retention) {
  ModelConfig c;
  c.layer = layer;
  c.vocab_size = 40;
  c.hidden_size = 32;
  c.num_layers = 2;
  c.num_heads = 2;
  c.intermediate_size = 48;
  c.initializer_range = 0.3;
  if (layer != LayerKind::kDeltaNet) c.head_dim = 16;
  c.preconditioner.enabled = osdn;
  c.preconditioner.retention = retention;
  c.preconditioner.eta = 0.3;
  c.preconditioner.retention_bias = 3.0;
  return c;
}

struct Case {
  std::string name;
  ModelConfig config;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

std::vector<Case> nine_layers() {
  std::vector<Case> all;
  const std::vector<std::pair<std::string, LayerKind>> kinds = {
      {"deltanet", LayerKind::kDeltaNet},
      {"gdn", LayerKind::kGdn},
      {"kda", LayerKind::kKda}};
  for (const auto& [name, kind] : kinds) {
    all.push_back({name, tiny(kind, false, Retention::kNone)});
    all.push_back({name + "_osdn", tiny(kind, true, Retention::kNone)});
    all.push_back(
        {name + "_osdn_apf", tiny(kind, true, Retention::kDataDependent)});
  }
  // Kinds of retention that imported models have.
  all.push_back({"deltanet_per_head",
                 tiny(LayerKind::kDeltaNet, true, Retention::kPerHead)});
  ModelConfig constant = tiny(LayerKind::kKda, true, Retention::kConstant);
  constant.preconditioner.retention_value = 0.9;
  all.push_back({"kda_constant", constant});
  return all;
}

SoftmaxConfig grouped_softmax() {
  SoftmaxConfig softmax;
  softmax.num_heads = 4;
  softmax.num_kv_heads = 2;
  return softmax;
}

// The softmax reference, and a hybrid of each of the nine.
std::vector<Case> softmax_models() {
  std::vector<Case> all;
  ModelConfig transformer =
      tiny(LayerKind::kTransformer, false, Retention::kNone);
  transformer.head_dim.reset();
  transformer.softmax = grouped_softmax();
  all.push_back({"transformer", transformer});
  transformer.softmax.num_kv_heads = 4;
  transformer.softmax.head_dim = 6;
  all.push_back({"transformer_ungrouped", transformer});
  for (Case one : nine_layers()) {
    one.name += "_hybrid";
    one.config.softmax = grouped_softmax();
    one.config.softmax.layers = {1};
    all.push_back(one);
  }
  return all;
}

at::Tensor random_tokens(std::uint64_t seed, std::int64_t count,
                         std::int64_t vocab) {
  Xoshiro256 random(seed);
  at::Tensor tokens = at::empty({count}, at::kLong);
  for (std::int64_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<std::int64_t>(
        random.below(static_cast<std::uint64_t>(vocab)));
  }
  return tokens;
}

LanguageModel make(const ModelConfig& config, at::ScalarType dtype) {
  LanguageModel model(config, dtype, at::kCPU);
  model.initialise(7);
  return model;
}

class NineLayers : public testing::TestWithParam<Case> {};

TEST_P(NineLayers, K11_gradients_equal_finite_differences) {
  LanguageModel model = make(GetParam().config, at::kDouble);
  const ops::Documents documents({0, 21, 21, 30});
  const Batch batch{random_tokens(1, 30, 40), random_tokens(2, 30, 40),
                    documents};
  batch.labels[3] = ops::kNoLabel;
  model.loss_sum(batch).backward();

  Xoshiro256 random(3);
  const double step = 1e-5;
  for (const ModelParameter& p : model.parameters()) {
    ASSERT_TRUE(p.tensor.grad().defined()) << p.info.name;
    // Along a random direction every element of the parameter takes part.
    at::Tensor direction = at::empty_like(p.tensor).detach();
    double* d = direction.data_ptr<double>();
    for (std::int64_t i = 0; i < direction.numel(); ++i) {
      d[i] = random.normal();
    }
    direction /= direction.norm();
    const at::NoGradGuard no_grad;
    at::Tensor values = p.tensor;
    const at::Tensor original = values.clone();
    const auto loss_at = [&](double distance) {
      values.copy_(original + direction * distance);
      return model.loss_sum(batch).item<double>();
    };
    const double numeric = (loss_at(step) - loss_at(-step)) / (2 * step);
    values.copy_(original);
    const double analytic = (p.tensor.grad() * direction).sum().item<double>();
    EXPECT_NEAR(analytic, numeric, 1e-6 * (1 + std::abs(numeric)))
        << p.info.name;
  }
}

TEST_P(NineLayers, recomputing_changes_no_bit) {
  const Batch batch{random_tokens(1, 90, 40), random_tokens(2, 90, 40),
                    ops::Documents({0, 61, 90})};
  LanguageModel kept = make(GetParam().config, at::kFloat);
  LanguageModel again = make(GetParam().config, at::kFloat);
  again.set_recompute(true);
  const at::Tensor expected = kept.loss_sum(batch);
  const at::Tensor found = again.loss_sum(batch);
  EXPECT_TRUE(at::equal(found, expected));
  expected.backward();
  found.backward();
  for (std::size_t i = 0; i < kept.parameters().size(); ++i) {
    EXPECT_TRUE(at::equal(again.parameters()[i].tensor.grad(),
                          kept.parameters()[i].tensor.grad()))
        << kept.parameters()[i].info.name;
  }
}

TEST_P(NineLayers, V1_other_documents_change_no_bit) {
  LanguageModel model = make(GetParam().config, at::kFloat);
  const ops::Documents documents({0, 70, 150, 170});
  at::Tensor tokens = random_tokens(1, 170, 40);
  const at::NoGradGuard no_grad;
  const at::Tensor before = model.logits(tokens, documents).clone();
  tokens.narrow(0, 0, 70).copy_(random_tokens(9, 70, 40));
  tokens.narrow(0, 150, 20).copy_(random_tokens(8, 20, 40));
  const at::Tensor after = model.logits(tokens, documents);
  EXPECT_TRUE(at::equal(before.narrow(0, 70, 80), after.narrow(0, 70, 80)));
  EXPECT_FALSE(at::equal(before.narrow(0, 0, 70), after.narrow(0, 0, 70)));
}

// Parameters see a document through its own tokens only: with labels in one
// document, the others' tokens change no bit of any gradient.
TEST_P(NineLayers, V1_other_documents_change_no_bit_of_a_gradient) {
  LanguageModel model = make(GetParam().config, at::kFloat);
  const ops::Documents documents({0, 70, 150, 170});
  at::Tensor tokens = random_tokens(1, 170, 40);
  at::Tensor labels = at::full({170}, ops::kNoLabel, at::kLong);
  labels.narrow(0, 70, 80).copy_(random_tokens(2, 80, 40));
  const auto gradients = [&] {
    model.loss_sum({tokens, labels, documents}).backward();
    std::vector<at::Tensor> all;
    for (const ModelParameter& p : model.parameters()) {
      all.push_back(p.tensor.grad().clone());
      at::Tensor parameter = p.tensor;
      parameter.mutable_grad() = at::Tensor();
    }
    return all;
  };
  const std::vector<at::Tensor> before = gradients();
  tokens.narrow(0, 0, 70).copy_(random_tokens(9, 70, 40));
  tokens.narrow(0, 150, 20).copy_(random_tokens(8, 20, 40));
  const std::vector<at::Tensor> after = gradients();
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::string& name = model.parameters()[i].info.name;
    EXPECT_TRUE(at::equal(before[i], after[i])) << name;
    EXPECT_GT(before[i].abs().max().item<float>(), 0) << name;
  }
}

TEST_P(NineLayers, K3_later_tokens_change_no_earlier_bit) {
  LanguageModel model = make(GetParam().config, at::kFloat);
  at::Tensor tokens = random_tokens(1, 90, 40);
  const at::NoGradGuard no_grad;
  const auto documents = ops::Documents::single(90);
  const at::Tensor before = model.logits(tokens, documents).clone();
  tokens.narrow(0, 37, 53).copy_(random_tokens(9, 53, 40));
  const at::Tensor after = model.logits(tokens, documents);
  EXPECT_TRUE(at::equal(before.narrow(0, 0, 37), after.narrow(0, 0, 37)));
}

TEST_P(NineLayers, V3_V5_any_split_gives_the_outputs_of_the_whole) {
  LanguageModel model = make(GetParam().config, at::kDouble);
  const std::int64_t T = 83;
  const at::Tensor tokens = random_tokens(1, T, 40);
  const at::NoGradGuard no_grad;
  const at::Tensor whole =
      model.logits(tokens, ops::Documents::single(T)).clone();
  Xoshiro256 random(5);
  for (int trial = 0; trial < 6; ++trial) {
    ModelState state;
    std::vector<at::Tensor> parts;
    for (std::int64_t t = 0; t < T;) {
      // Pieces of 1 to 3 tokens are shorter than the convolution.
      const std::uint64_t longest = trial == 0 ? 1 : (trial < 3 ? 3 : 70);
      const std::int64_t n = std::min<std::int64_t>(
          T - t, 1 + static_cast<std::int64_t>(random.below(longest)));
      parts.push_back(model.logits(tokens.narrow(0, t, n),
                                   ops::Documents::single(n), &state));
      t += n;
    }
    EXPECT_LT((at::cat(parts) - whole).abs().max().item<double>(), 1e-10);
  }
}

// Documents side by side, each going on at its own pace, some not at all.
TEST_P(NineLayers, V3_documents_go_on_side_by_side) {
  LanguageModel model = make(GetParam().config, at::kDouble);
  const std::vector<std::int64_t> lengths = {40, 17, 29};
  std::vector<at::Tensor> tokens, whole;
  const at::NoGradGuard no_grad;
  for (std::size_t n = 0; n < lengths.size(); ++n) {
    tokens.push_back(random_tokens(n + 1, lengths[n], 40));
    whole.push_back(
        model.logits(tokens[n], ops::Documents::single(lengths[n])).clone());
  }
  Xoshiro256 random(5);
  ModelState state;
  std::vector<std::int64_t> done(lengths.size(), 0);
  std::vector<double> worst(lengths.size(), 0);
  while (done != lengths) {
    std::vector<std::int64_t> cu_seqlens = {0};
    std::vector<at::Tensor> pieces;
    for (std::size_t n = 0; n < lengths.size(); ++n) {
      const std::int64_t count = std::min<std::int64_t>(
          lengths[n] - done[n], static_cast<std::int64_t>(random.below(9)));
      pieces.push_back(tokens[n].narrow(0, done[n], count));
      cu_seqlens.push_back(cu_seqlens.back() + count);
    }
    if (cu_seqlens.back() == 0) continue;
    const at::Tensor logits =
        model.logits(at::cat(pieces), ops::Documents(cu_seqlens), &state);
    for (std::size_t n = 0; n < lengths.size(); ++n) {
      const std::int64_t count = cu_seqlens[n + 1] - cu_seqlens[n];
      if (count == 0) continue;
      const at::Tensor error = logits.narrow(0, cu_seqlens[n], count) -
                               whole[n].narrow(0, done[n], count);
      worst[n] = std::max(worst[n], error.abs().max().item<double>());
      done[n] += count;
    }
  }
  for (const double error : worst) EXPECT_LT(error, 1e-10);
}

INSTANTIATE_TEST_SUITE_P(Softmax, NineLayers,
                         testing::ValuesIn(softmax_models()),
                         [](const auto& c) { return c.param.name; });
INSTANTIATE_TEST_SUITE_P(Layers, NineLayers, testing::ValuesIn(nine_layers()),
                         [](const auto& c) { return c.param.name; });

TEST(LanguageModel, eta_zero_is_the_baseline_to_the_bit) {
  ModelConfig plain = tiny(LayerKind::kDeltaNet, false, Retention::kNone);
  ModelConfig scaled = tiny(LayerKind::kDeltaNet, true, Retention::kNone);
  scaled.preconditioner.eta = 0;
  LanguageModel a = make(plain, at::kFloat);
  LanguageModel b = make(scaled, at::kFloat);
  const at::NoGradGuard no_grad;
  const at::Tensor tokens = random_tokens(1, 100, 40);
  const auto documents = ops::Documents::single(100);
  EXPECT_TRUE(
      at::equal(a.logits(tokens, documents), b.logits(tokens, documents)));
}

// A constant r is the r that every head can learn, at the same value.
TEST(LanguageModel, constant_retention_equals_per_head_at_that_value) {
  ModelConfig learned = tiny(LayerKind::kGdn, true, Retention::kPerHead);
  learned.preconditioner.retention_bias = 2.0;
  ModelConfig constant = tiny(LayerKind::kGdn, true, Retention::kConstant);
  constant.preconditioner.retention_value = 1 / (1 + std::exp(-2.0));
  ModelConfig none = tiny(LayerKind::kGdn, true, Retention::kNone);
  const at::NoGradGuard no_grad;
  const at::Tensor tokens = random_tokens(1, 60, 40);
  const auto documents = ops::Documents::single(60);
  const at::Tensor a = make(learned, at::kDouble).logits(tokens, documents);
  const at::Tensor b = make(constant, at::kDouble).logits(tokens, documents);
  const at::Tensor c = make(none, at::kDouble).logits(tokens, documents);
  EXPECT_LT((a - b).abs().max().item<double>(), 1e-12);
  EXPECT_GT((a - c).abs().max().item<double>(), 1e-6);
}

TEST(LanguageModel, initial_values_do_not_depend_on_other_parameters) {
  const LanguageModel a =
      make(tiny(LayerKind::kGdn, false, Retention::kNone), at::kFloat);
  const LanguageModel b =
      make(tiny(LayerKind::kGdn, true, Retention::kDataDependent), at::kFloat);
  std::size_t shared = 0;
  for (const ModelParameter& p : a.parameters()) {
    for (const ModelParameter& q : b.parameters()) {
      if (p.info.name != q.info.name) continue;
      EXPECT_TRUE(at::equal(p.tensor, q.tensor)) << p.info.name;
      ++shared;
    }
  }
  EXPECT_EQ(shared, a.parameters().size());
}

TEST(LanguageModel, initial_values_follow_their_distributions) {
  ModelConfig c = tiny(LayerKind::kKda, true, Retention::kDataDependent);
  c.hidden_size = 256;
  c.num_heads = 8;
  c.initializer_range = 0.02;
  const LanguageModel model = make(c, at::kFloat);
  for (const ModelParameter& p : model.parameters()) {
    const at::Tensor x = p.tensor.detach().to(at::kDouble);
    const auto has = [&](const char* part) {
      return p.info.name.find(part) != std::string::npos;
    };
    if (has("q_proj.weight")) {
      EXPECT_NEAR(x.std().item<double>(), 0.02, 0.001);
      EXPECT_NEAR(x.mean().item<double>(), 0.0, 0.001);
    } else if (has("A_log")) {
      EXPECT_GE(x.min().item<double>(), 0.0);
      EXPECT_LE(x.max().item<double>(), std::log(16.0));
    } else if (has("dt_bias")) {
      const at::Tensor dt = at::softplus(x);
      EXPECT_GE(dt.min().item<double>(), 0.00099);
      EXPECT_LE(dt.max().item<double>(), 0.101);
    } else if (has("initial_scale") || has("norm.weight")) {
      EXPECT_TRUE(at::equal(x, at::ones_like(x))) << p.info.name;
    } else if (has("osgm_a_proj.bias")) {
      EXPECT_NEAR(x.min().item<double>(), c.preconditioner.retention_bias,
                  1e-6);
    } else if (has("osgm_a_proj.weight")) {
      EXPECT_EQ(x.abs().max().item<double>(), 0.0);
    }
  }
}

}  // namespace
}  // namespace osdn::model
