// A layer's tokens one by one: with gradients off they go through the decoding
// step, which on the CPU changes no bit.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "osdn/arch/parameter_table.h"
#include "osdn/core/random.h"
#include "osdn/layers/attention.h"

namespace osdn::layers {
namespace {

using config::LayerKind;
using config::ModelConfig;
using config::Retention;

struct Case {
  std::string name;
  ModelConfig config;
};

ModelConfig tiny(LayerKind kind, std::optional<Retention> retention) {
  ModelConfig c;
  c.layer = kind;
  c.hidden_size = 32;
  c.num_layers = 1;
  c.num_heads = 2;
  if (kind != LayerKind::kDeltaNet) c.head_dim = 16;
  c.preconditioner.enabled = retention.has_value();
  c.preconditioner.retention = retention.value_or(Retention::kNone);
  c.preconditioner.eta = 0.3;
  c.preconditioner.retention_value = 0.9;
  return c;
}

std::vector<Case> layers() {
  std::vector<Case> all;
  for (const auto& [name, kind] :
       std::vector<std::pair<std::string, LayerKind>>{
           {"deltanet", LayerKind::kDeltaNet},
           {"gdn", LayerKind::kGdn},
           {"kda", LayerKind::kKda}}) {
    all.push_back({name, tiny(kind, std::nullopt)});
    all.push_back({name + ", osdn", tiny(kind, Retention::kNone)});
    all.push_back({name + ", apf", tiny(kind, Retention::kDataDependent)});
    all.push_back({name + ", r per head", tiny(kind, Retention::kPerHead)});
    all.push_back({name + ", constant r", tiny(kind, Retention::kConstant)});
  }
  all.push_back({"gdn, tied r", tiny(LayerKind::kGdn, Retention::kTied)});
  for (Case& c : all) c.config.allow_neg_eigval = c.config.num_heads == 2;
  ModelConfig c = tiny(LayerKind::kKda, std::nullopt);
  c.safe_gate = true;
  c.lower_bound = -5;
  c.num_v_heads = 4;
  all.push_back({"kda, bounded, grouped", c});
  c = tiny(LayerKind::kDeltaNet, Retention::kNone);
  c.use_beta = false;
  c.use_gate = true;
  c.norm_eps = 1e-3;
  c.preconditioner.beta_aware = false;
  all.push_back({"deltanet, beta 1, gate", c});
  // What the step does not cover.
  c = tiny(LayerKind::kDeltaNet, Retention::kNone);
  c.qk_activation = config::QkActivation::kElu;
  all.push_back({"deltanet, elu", c});
  c.qk_norm = config::QkNorm::kSum;
  all.push_back({"deltanet, elu, sum norm", c});
  c = tiny(LayerKind::kDeltaNet, Retention::kNone);
  c.use_short_conv = false;
  all.push_back({"deltanet, no convolution", c});
  return all;
}

at::Tensor random_tensor(std::uint64_t seed,
                         const std::vector<std::int64_t>& shape) {
  Xoshiro256 random(seed);
  at::Tensor x = at::empty(shape, at::kFloat);
  float* data = x.data_ptr<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    data[i] = static_cast<float>(random.normal());
  }
  return x;
}

Attention make(const ModelConfig& config) {
  ParameterSource source;
  std::uint64_t seed = 1;
  for (const arch::Parameter& p : arch::parameter_table(config)) {
    const bool matrix = p.shape.size() == 2;
    source.add(p.name, random_tensor(seed++, p.shape) * (matrix ? 0.2 : 0.7) +
                           (matrix ? 0.0 : 0.5));
  }
  return Attention(config, 0, source);
}

/// Whoever looks on gets the separate operators.
struct Onlooker : AttentionObserver {
  void on_attention(const AttentionTrace&) override { ++seen; }
  int seen = 0;
};

std::vector<at::Tensor> tensors_of(const AttentionState& s) {
  std::vector<at::Tensor> all;
  for (const at::Tensor& x : {s.state, s.d, s.conv_q, s.conv_k, s.conv_v}) {
    if (x.defined()) all.push_back(x);
  }
  return all;
}

TEST(Decode, a_step_has_the_bits_of_the_separate_operators) {
  const at::NoGradGuard no_grad;
  for (const Case& c : layers()) {
    const Attention layer = make(c.config);
    AttentionState state;
    layer.forward(random_tensor(90, {12, 32}), ops::Documents({0, 7, 8, 12}),
                  &state, nullptr);
    AttentionState watched = state;
    Onlooker onlooker;
    for (int step = 0; step < 3; ++step) {
      const at::Tensor x =
          random_tensor(91 + static_cast<std::uint64_t>(step), {3, 32});
      const ops::Documents each({0, 1, 2, 3});
      const at::Tensor o = layer.forward(x, each, &state, nullptr);
      const at::Tensor expected = layer.forward(x, each, &watched, &onlooker);
      EXPECT_EQ(onlooker.seen, step + 1) << c.name;
      EXPECT_TRUE(at::equal(o, expected)) << c.name << ", step " << step;
      const auto found = tensors_of(state), right = tensors_of(watched);
      ASSERT_EQ(found.size(), right.size()) << c.name;
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_TRUE(at::equal(found[i], right[i]))
            << c.name << ", step " << step << ", state " << i;
      }
    }
  }
}

TEST(Decode, documents_that_do_not_have_one_token_each_are_no_step) {
  const at::NoGradGuard no_grad;
  for (const Case& c : layers()) {
    const Attention layer = make(c.config);
    AttentionState state;
    layer.forward(random_tensor(90, {6, 32}), ops::Documents({0, 2, 5, 6}),
                  &state, nullptr);
    AttentionState watched = state;
    Onlooker onlooker;
    const at::Tensor x = random_tensor(91, {3, 32});
    const ops::Documents uneven({0, 2, 2, 3});
    const at::Tensor o = layer.forward(x, uneven, &state, nullptr);
    EXPECT_TRUE(at::equal(o, layer.forward(x, uneven, &watched, &onlooker)))
        << c.name;
    // A first token has no state to go on from.
    AttentionState fresh;
    const ops::Documents each({0, 1, 2, 3});
    EXPECT_TRUE(at::equal(layer.forward(x, each, &fresh, nullptr),
                          layer.forward(x, each, nullptr, nullptr)))
        << c.name;
  }
}

}  // namespace
}  // namespace osdn::layers
