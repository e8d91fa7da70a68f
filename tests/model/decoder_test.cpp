// Decoding on the CPU, where it is the model's own step; the recorded step's
// test is tests/gpu_operators/decode_step_gpu_test.cpp.

#include "osdn/model/decoder.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include "osdn/core/error.h"
#include "osdn/model/model_state.h"

namespace osdn::model {
namespace {

config::ModelConfig config_of(bool hybrid) {
  config::ModelConfig c;
  c.layer = config::LayerKind::kDeltaNet;
  c.vocab_size = 40;
  c.hidden_size = 32;
  c.num_layers = 2;
  c.num_heads = 2;
  c.intermediate_size = 48;
  c.initializer_range = 0.3;
  c.preconditioner.enabled = true;
  if (hybrid) {
    c.softmax.layers = {1};
    c.softmax.num_heads = 2;
  }
  return c;
}

TEST(Decoder, gives_the_bits_of_the_model) {
  const at::NoGradGuard no_grad;
  for (const bool hybrid : {false, true}) {
    LanguageModel model(config_of(hybrid), at::kFloat, at::kCPU);
    model.initialise(3);
    EXPECT_EQ(model.steps_in_place(), !hybrid);
    const at::Tensor tokens = at::arange(24, at::kLong).mul(7).remainder(40);
    ModelState state;
    model.hidden(tokens.narrow(0, 0, 12), ops::Documents({0, 5, 12}), &state);
    Decoder decoder(model, state);
    for (std::int64_t t = 12; t < 24; t += 2) {
      const at::Tensor next = tokens.narrow(0, t, 2);
      const at::Tensor right =
          model.logits(next, ops::Documents({0, 1, 2}), &state);
      EXPECT_TRUE(at::equal(decoder.logits(next), right)) << "token " << t;
      EXPECT_TRUE(
          at::equal(decoder.state().layers[0].state, state.layers[0].state));
    }
    EXPECT_FALSE(decoder.recorded());
  }
}

TEST(Decoder, needs_a_state) {
  const LanguageModel model(config_of(false), at::kFloat, at::kCPU);
  EXPECT_THROW(Decoder(model, ModelState{}), Error);
}

}  // namespace
}  // namespace osdn::model
