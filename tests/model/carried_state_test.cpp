// What is carried between pieces: through gradients, and document by document.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "osdn/core/error.h"
#include "osdn/core/random.h"
#include "osdn/model/model_state.h"

namespace osdn::model {
namespace {

using config::LayerKind;
using config::ModelConfig;
using config::Retention;

constexpr std::int64_t kVocab = 40;

struct Case {
  std::string name;
  ModelConfig config;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

std::vector<Case> nine_layers() {
  std::vector<Case> all;
  for (const auto& [name, kind] :
       {std::pair{"deltanet", LayerKind::kDeltaNet},
        std::pair{"gdn", LayerKind::kGdn}, std::pair{"kda", LayerKind::kKda}}) {
    for (const std::string tail : {"", "_osdn", "_osdn_apf"}) {
      ModelConfig c;
      c.layer = kind;
      c.vocab_size = kVocab;
      c.hidden_size = 32;
      c.num_layers = 2;
      c.num_heads = 2;
      c.intermediate_size = 48;
      c.initializer_range = 0.3;
      if (kind != LayerKind::kDeltaNet) c.head_dim = 16;
      c.preconditioner.enabled = !tail.empty();
      c.preconditioner.eta = 0.3;
      c.preconditioner.retention_bias = 3.0;
      if (tail == "_osdn_apf") {
        c.preconditioner.retention = Retention::kDataDependent;
      }
      all.push_back({name + tail, c});
    }
  }
  return all;
}

/// And what keeps its keys and values instead.
std::vector<Case> all_models() {
  std::vector<Case> all = nine_layers();
  ModelConfig hybrid = all.front().config;
  hybrid.softmax.layers = {1};
  hybrid.softmax.num_heads = 2;
  all.push_back({"hybrid", hybrid});
  ModelConfig transformer = all.front().config;
  transformer.layer = LayerKind::kTransformer;
  transformer.softmax.num_heads = 2;
  all.push_back({"transformer", transformer});
  return all;
}

at::Tensor random_tokens(std::uint64_t seed, std::int64_t count) {
  Xoshiro256 random(seed);
  at::Tensor tokens = at::empty({count}, at::kLong);
  for (std::int64_t i = 0; i < count; ++i) {
    tokens[i] = static_cast<std::int64_t>(random.below(kVocab));
  }
  return tokens;
}

LanguageModel make(const ModelConfig& config) {
  LanguageModel model(config, at::kDouble, at::kCPU);
  model.initialise(7);
  return model;
}

std::vector<at::Tensor> take_gradients(LanguageModel& model) {
  std::vector<at::Tensor> all;
  for (const ModelParameter& p : model.parameters()) {
    at::Tensor parameter = p.tensor;
    all.push_back(parameter.grad().clone());
    parameter.mutable_grad() = at::Tensor();
  }
  return all;
}

class CarriedState : public testing::TestWithParam<Case> {};

// The state carries gradients back: a sequence in pieces has the outputs and
// the gradients of the whole.
TEST_P(CarriedState, V3_pieces_have_the_gradients_of_the_whole) {
  LanguageModel model = make(GetParam().config);
  constexpr std::int64_t T = 75;
  const at::Tensor tokens = random_tokens(1, T);
  const at::Tensor weights = at::rand({T, kVocab}, at::kDouble);
  (model.logits(tokens, ops::Documents::single(T)) * weights).sum().backward();
  const std::vector<at::Tensor> whole = take_gradients(model);
  Xoshiro256 random(5);
  for (const std::uint64_t longest : {2, 9, 70}) {
    ModelState state;
    at::Tensor sum = at::zeros({}, at::kDouble);
    for (std::int64_t t = 0; t < T;) {
      const std::int64_t n = std::min<std::int64_t>(
          T - t, 1 + static_cast<std::int64_t>(random.below(longest)));
      sum = sum + (model.logits(tokens.narrow(0, t, n),
                                ops::Documents::single(n), &state) *
                   weights.narrow(0, t, n))
                      .sum();
      t += n;
    }
    sum.backward();
    const std::vector<at::Tensor> pieces = take_gradients(model);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      const double scale = 1 + whole[i].abs().max().item<double>();
      EXPECT_LT((pieces[i] - whole[i]).abs().max().item<double>(),
                1e-10 * scale)
          << model.parameters()[i].info.name << ", pieces up to " << longest;
    }
  }
}

// Documents that join and leave a batch between any two pieces.
TEST_P(CarriedState, documents_join_and_leave) {
  const LanguageModel model = make(GetParam().config);
  const at::NoGradGuard no_grad;
  const std::vector<std::int64_t> lengths = {9, 70, 1, 33};
  std::vector<at::Tensor> tokens, whole;
  std::vector<ModelState> states;
  for (const std::int64_t n : lengths) {
    const auto documents = ops::Documents::single(n);
    tokens.push_back(random_tokens(static_cast<std::uint64_t>(n), n + 6));
    whole.push_back(model.logits(tokens.back(), ops::Documents::single(n + 6)));
    states.emplace_back();
    model.hidden(tokens.back().narrow(0, 0, n), documents, &states.back());
  }
  // Two steps of all, then of some in another order, one of them twice.
  ModelState batch = join_documents(states);
  std::vector<std::size_t> members = {0, 1, 2, 3};
  for (std::int64_t step = 0; step < 6; ++step) {
    if (step == 2) {
      batch = select_documents(batch, {3, 0, 3});
      members = {3, 0, 3};
    }
    if (step == 4) {
      batch = join_documents(
          {select_documents(batch, {1}), select_documents(batch, {2})});
      members = {0, 3};
    }
    std::vector<std::int64_t> cu_seqlens{0};
    std::vector<at::Tensor> row;
    for (const std::size_t m : members) {
      row.push_back(tokens[m].narrow(0, lengths[m] + step, 1));
      cu_seqlens.push_back(cu_seqlens.back() + 1);
    }
    const at::Tensor logits =
        model.logits(at::cat(row), ops::Documents(cu_seqlens), &batch);
    for (std::size_t i = 0; i < members.size(); ++i) {
      const std::size_t m = members[i];
      const at::Tensor error =
          logits[static_cast<std::int64_t>(i)] - whole[m][lengths[m] + step];
      EXPECT_LT(error.abs().max().item<double>(), 1e-10) << step << " " << m;
    }
  }
}

// An empty document's state is that of its start, tensors and all.
TEST_P(CarriedState, nothing_gives_the_state_of_the_start) {
  const LanguageModel model = make(GetParam().config);
  const at::NoGradGuard no_grad;
  ModelState none;
  model.hidden(at::empty({0}, at::kLong), ops::Documents({0, 0, 0}), &none);
  const at::Tensor tokens = random_tokens(3, 20);
  const ops::Documents documents({0, 12, 20});
  EXPECT_TRUE(at::equal(model.logits(tokens, documents, &none),
                        model.logits(tokens, documents)));
}

INSTANTIATE_TEST_SUITE_P(Layers, CarriedState, testing::ValuesIn(all_models()),
                         [](const auto& c) { return c.param.name; });

TEST(ModelState, what_cannot_be_joined_is_refused) {
  const LanguageModel model = make(nine_layers().back().config);
  const at::NoGradGuard no_grad;
  ModelState started;
  model.hidden(random_tokens(1, 5), ops::Documents::single(5), &started);
  EXPECT_THROW(join_documents({started, ModelState()}), Error);
  ModelState without_d = started;
  without_d.layers[1].d = at::Tensor();
  EXPECT_THROW(join_documents({started, without_d}), Error);
  EXPECT_TRUE(join_documents({}).layers.empty());
  EXPECT_TRUE(join_documents({ModelState(), ModelState()}).layers.empty());
  EXPECT_TRUE(select_documents(ModelState(), {0}).layers.empty());
}

}  // namespace
}  // namespace osdn::model
