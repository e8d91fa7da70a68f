#include "osdn/layers/softmax_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "osdn/core/error.h"
#include "osdn/core/random.h"

namespace osdn::layers {
namespace {

using config::ModelConfig;

ModelConfig transformer(std::int64_t h, std::int64_t H, std::int64_t G,
                        std::int64_t D) {
  ModelConfig model;
  model.layer = config::LayerKind::kTransformer;
  model.hidden_size = h;
  model.softmax.num_heads = H;
  model.softmax.num_kv_heads = G;
  model.softmax.head_dim = D;
  model.softmax.rope_theta = 100;
  return model;
}

at::Tensor draw(std::uint64_t seed, at::IntArrayRef shape, double size) {
  Xoshiro256 random(seed);
  at::Tensor values = at::empty(shape, at::kDouble);
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    values.data_ptr<double>()[i] = size * random.normal();
  }
  return values;
}

struct Layer {
  explicit Layer(const ModelConfig& model) {
    const std::int64_t h = model.hidden_size;
    const std::int64_t width = model.softmax_heads() * model.softmax_head_dim();
    const std::int64_t kv_width =
        model.softmax_kv_heads() * model.softmax_head_dim();
    q = draw(1, {width, h}, 0.5);
    k = draw(2, {kv_width, h}, 0.5);
    v = draw(3, {kv_width, h}, 0.5);
    o = draw(4, {h, width}, 0.5);
    const std::string prefix = "model.layers.0.attn.";
    source.add(prefix + "q_proj.weight", q);
    source.add(prefix + "k_proj.weight", k);
    source.add(prefix + "v_proj.weight", v);
    source.add(prefix + "o_proj.weight", o);
  }
  at::Tensor q, k, v, o;
  ParameterSource source;
};

// Row t of W x, head by head.
std::vector<double> projected(const at::Tensor& w, const at::Tensor& x,
                              std::int64_t t) {
  std::vector<double> out(static_cast<std::size_t>(w.size(0)), 0);
  for (std::int64_t i = 0; i < w.size(0); ++i) {
    for (std::int64_t c = 0; c < w.size(1); ++c) {
      out[static_cast<std::size_t>(i)] +=
          w.data_ptr<double>()[i * w.size(1) + c] *
          x.data_ptr<double>()[t * w.size(1) + c];
    }
  }
  return out;
}

// Channels c and c + D/2 of a head as one complex number, turned.
void turn(std::vector<double>& x, std::int64_t D, double theta,
          std::int64_t position) {
  const auto half = static_cast<std::size_t>(D / 2);
  for (std::size_t head = 0; head < x.size(); head += 2 * half) {
    for (std::size_t c = 0; c < half; ++c) {
      const double angle = static_cast<double>(position) *
                           std::pow(theta, -2.0 * static_cast<double>(c) /
                                               static_cast<double>(D));
      const std::complex<double> turned =
          std::complex<double>(x[head + c], x[head + c + half]) *
          std::polar(1.0, angle);
      x[head + c] = turned.real();
      x[head + c + half] = turned.imag();
    }
  }
}

// The definition, token by token over one document.
at::Tensor by_definition(const ModelConfig& model, const Layer& layer,
                         const at::Tensor& x) {
  const std::int64_t T = x.size(0), D = model.softmax_head_dim();
  const std::int64_t H = model.softmax_heads();
  const std::int64_t group = H / model.softmax_kv_heads();
  std::vector<std::vector<double>> keys, values;
  at::Tensor out = at::zeros({T, H * D}, at::kDouble);
  for (std::int64_t t = 0; t < T; ++t) {
    std::vector<double> q = projected(layer.q, x, t);
    keys.push_back(projected(layer.k, x, t));
    values.push_back(projected(layer.v, x, t));
    turn(q, D, model.softmax.rope_theta, t);
    turn(keys.back(), D, model.softmax.rope_theta, t);
    for (std::int64_t head = 0; head < H; ++head) {
      const auto at_q = static_cast<std::size_t>(head * D);
      const auto at_k = static_cast<std::size_t>(head / group * D);
      std::vector<double> weights;
      double sum = 0;
      for (const auto& key : keys) {
        double dot = 0;
        for (std::size_t c = 0; c < static_cast<std::size_t>(D); ++c) {
          dot += q[at_q + c] * key[at_k + c];
        }
        weights.push_back(std::exp(dot / std::sqrt(static_cast<double>(D))));
        sum += weights.back();
      }
      for (std::size_t s = 0; s < values.size(); ++s) {
        for (std::size_t c = 0; c < static_cast<std::size_t>(D); ++c) {
          out.data_ptr<double>()[t * H * D + head * D +
                                 static_cast<std::int64_t>(c)] +=
              weights[s] / sum * values[s][at_k + c];
        }
      }
    }
  }
  return at::linear(out, layer.o);
}

double worst(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

TEST(SoftmaxAttention, equals_its_definition_in_every_document) {
  const at::NoGradGuard no_grad;
  for (const std::int64_t kv_heads : {1, 2, 4}) {
    const ModelConfig model = transformer(12, 4, kv_heads, 6);
    const Layer layer(model);
    const SoftmaxAttention attention(model, 0, layer.source);
    const at::Tensor x = draw(9, {30, 12}, 1);
    const ops::Documents documents({0, 13, 13, 14, 30});
    const at::Tensor y = attention.forward(x, documents, nullptr, nullptr);
    for (std::int64_t n = 0; n < documents.count(); ++n) {
      const std::int64_t begin = documents.begin(n);
      const std::int64_t count = documents.end(n) - begin;
      if (count == 0) continue;
      EXPECT_LT(worst(y.narrow(0, begin, count),
                      by_definition(model, layer, x.narrow(0, begin, count))),
                1e-12)
          << kv_heads << " key heads, document " << n;
    }
  }
}

TEST(SoftmaxAttention, shifting_a_document_changes_nothing) {
  const at::NoGradGuard no_grad;
  const ModelConfig model = transformer(12, 2, 2, 6);
  const Layer layer(model);
  const SoftmaxAttention attention(model, 0, layer.source);
  const at::Tensor x = draw(9, {20, 12}, 1);
  const at::Tensor alone =
      attention.forward(x, ops::Documents::single(20), nullptr, nullptr);
  const at::Tensor behind =
      attention.forward(at::cat({draw(8, {7, 12}, 1), x}),
                        ops::Documents({0, 7, 27}), nullptr, nullptr);
  EXPECT_LT(worst(behind.narrow(0, 7, 20), alone), 1e-14);
}

// A piece so long behind a past so long that its queries go in blocks.
TEST(SoftmaxAttention, a_long_piece_after_a_long_past) {
  const at::NoGradGuard no_grad;
  const ModelConfig model = transformer(4, 1, 1, 2);
  const Layer layer(model);
  const SoftmaxAttention attention(model, 0, layer.source);
  const std::int64_t past = 3001, T = 6000;
  const at::Tensor x = draw(9, {T, 4}, 1);
  const at::Tensor whole =
      attention.forward(x, ops::Documents::single(T), nullptr, nullptr);
  AttentionState state;
  attention.forward(x.narrow(0, 0, past), ops::Documents::single(past), &state,
                    nullptr);
  EXPECT_EQ(state.cache_length.item<double>(), past);
  const at::Tensor rest =
      attention.forward(x.narrow(0, past, T - past),
                        ops::Documents::single(T - past), &state, nullptr);
  EXPECT_LT(worst(rest, whole.narrow(0, past, T - past)), 1e-12);
  EXPECT_EQ(state.cache_k.sizes(), at::IntArrayRef({1, T, 1, 2}));
}

TEST(SoftmaxAttention, an_older_state_is_not_touched_by_going_on) {
  const at::NoGradGuard no_grad;
  const ModelConfig model = transformer(12, 2, 1, 6);
  const Layer layer(model);
  const SoftmaxAttention attention(model, 0, layer.source);
  const auto piece = [&](std::uint64_t seed, AttentionState& state) {
    return attention.forward(draw(seed, {5, 12}, 1), ops::Documents::single(5),
                             &state, nullptr);
  };
  AttentionState common;
  piece(1, common);
  AttentionState first = common;
  AttentionState second = common;
  const at::Tensor one = piece(2, first);
  piece(3, second);
  AttentionState again = common;
  EXPECT_TRUE(at::equal(piece(2, again), one));
}

// Zeros behind a shorter document are no keys: however many there are, the
// document goes on as it does alone.
TEST(SoftmaxAttention, the_padding_of_a_state_has_no_effect) {
  const at::NoGradGuard no_grad;
  const ModelConfig model = transformer(12, 2, 1, 6);
  const Layer layer(model);
  const SoftmaxAttention attention(model, 0, layer.source);
  const at::Tensor x = draw(1, {9, 12}, 1), next = draw(2, {3, 12}, 1);
  AttentionState together, alone;
  attention.forward(x, ops::Documents({0, 2, 9}), &together, nullptr);
  EXPECT_EQ(together.cache_k.sizes(), at::IntArrayRef({2, 7, 1, 6}));
  EXPECT_EQ(together.cache_k[0].narrow(0, 2, 5).abs().max().item<double>(), 0);
  attention.forward(x.narrow(0, 0, 2), ops::Documents::single(2), &alone,
                    nullptr);
  AttentionState taken;  // the first document, its padding still behind it
  taken.cache_k = together.cache_k.narrow(0, 0, 1);
  taken.cache_v = together.cache_v.narrow(0, 0, 1);
  taken.cache_length = together.cache_length.narrow(0, 0, 1);
  const auto go_on = [&](AttentionState& state) {
    return attention.forward(next, ops::Documents::single(3), &state, nullptr);
  };
  EXPECT_LT(worst(go_on(taken), go_on(alone)), 1e-13);
}

TEST(SoftmaxAttention, a_state_of_other_documents_is_refused) {
  const at::NoGradGuard no_grad;
  const ModelConfig model = transformer(12, 2, 1, 6);
  const Layer layer(model);
  const SoftmaxAttention attention(model, 0, layer.source);
  AttentionState state;
  const at::Tensor x = draw(1, {6, 12}, 1);
  attention.forward(x, ops::Documents({0, 2, 6}), &state, nullptr);
  try {
    attention.forward(x, ops::Documents::single(6), &state, nullptr);
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::HasSubstr("the state is of 2 documents, expected 1"));
  }
}

TEST(SoftmaxAttention, no_tokens_at_all) {
  const at::NoGradGuard no_grad;
  const ModelConfig model = transformer(12, 2, 1, 6);
  const Layer layer(model);
  const SoftmaxAttention attention(model, 0, layer.source);
  AttentionState state;
  const at::Tensor y = attention.forward(
      draw(1, {0, 12}, 1), ops::Documents({0, 0, 0}), &state, nullptr);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({0, 12}));
  EXPECT_EQ(state.cache_length.sum().item<double>(), 0);
}

TEST(RotateHalves, keeps_lengths_and_depends_on_the_distance_alone) {
  const std::int64_t D = 8;
  const at::Tensor a = draw(1, {1, 1, D}, 1), b = draw(2, {1, 1, D}, 1);
  const auto at_position = [&](const at::Tensor& x, double position) {
    const at::Tensor angles =
        position * at::pow(10.0, -at::arange(D / 2, at::kDouble));
    return rotate_halves(x, at::cos(angles), at::sin(angles));
  };
  EXPECT_NEAR(at_position(a, 17).norm().item<double>(), a.norm().item<double>(),
              1e-12);
  const double near =
      (at_position(a, 5) * at_position(b, 3)).sum().item<double>();
  const double far =
      (at_position(a, 105) * at_position(b, 103)).sum().item<double>();
  EXPECT_NEAR(near, far, 1e-12);
  EXPECT_GT(std::abs(near - (a * b).sum().item<double>()), 1e-3);
}

}  // namespace
}  // namespace osdn::layers
