// The decoding step on the GPU: tokens one by one against whole sequences
// through the separate operators in float64 on the CPU; and a model that goes
// on from its state.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "ops/decode_step_cases.h"
#include "osdn/model/decoder.h"
#include "osdn/model/model_state.h"
#include "osdn/ops/gpu.h"
#include "osdn/ops/gpu_graph.h"

namespace osdn::test {
namespace {

const at::Device kGpu(at::kCUDA, 0);

class GpuDecodeStep : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (!ops::gpu().usable) FAIL() << "no GPU: " << ops::gpu().why_not;
  }
};

// The kernel rounds nothing between its inputs and outputs, so that the states
// keep fp32 accuracy with bf16 rows, too; o is rounded once, by at most 2^-9 of
// each element.
TEST_P(GpuDecodeStep, tokens_one_by_one_equal_the_whole_sequence) {
  const double o_bound = GetParam() == at::kBFloat16 ? 3e-3 : 5e-5;
  for (const DecodeStepCase& c : decode_step_cases()) {
    const DecodeStepProblem p = draw_decode_step(c, 6, GetParam());
    const DecodeStepResult whole = run_whole(c, p);
    const DecodeStepResult steps = run_steps(c, p, kGpu, GetParam());
    EXPECT_LT(relative_rms(steps.o.cpu(), whole.o), o_bound) << c.name;
    EXPECT_LT(relative_rms(steps.state.state.cpu(), whole.state.state), 5e-5)
        << c.name;
    if (c.preconditioner) {
      EXPECT_LT(relative_rms(steps.state.d.cpu(), whole.state.d), 5e-5)
          << c.name;
    }
    const auto exact = [&](const at::Tensor& found, const at::Tensor& right) {
      EXPECT_TRUE(at::equal(found.cpu().to(at::kDouble), right)) << c.name;
    };
    exact(steps.state.conv_q, whole.state.conv_q);
    exact(steps.state.conv_k, whole.state.conv_k);
    exact(steps.state.conv_v, whole.state.conv_v);
  }
}

TEST_P(GpuDecodeStep, gives_the_same_bits_twice) {
  for (const DecodeStepCase& c : decode_step_cases()) {
    const DecodeStepProblem p = draw_decode_step(c, 2, GetParam());
    const DecodeStepResult first = run_steps(c, p, kGpu, GetParam());
    const DecodeStepResult second = run_steps(c, p, kGpu, GetParam());
    EXPECT_TRUE(at::equal(first.o, second.o)) << c.name;
    const auto a = tensors_of(first.state), b = tensors_of(second.state);
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_TRUE(at::equal(a[i], b[i])) << c.name << ", tensor " << i;
    }
  }
}

TEST_P(GpuDecodeStep, in_place_gives_the_same_bits) {
  for (const DecodeStepCase& c : decode_step_cases()) {
    expect_same_in_place(c, kGpu, GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GpuDecodeStep,
                         testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& type) {
                           return std::string(at::toString(type.param));
                         });

constexpr config::LayerKind kKinds[] = {config::LayerKind::kDeltaNet,
                                        config::LayerKind::kGdn,
                                        config::LayerKind::kKda};

model::LanguageModel small_model(config::LayerKind kind, at::ScalarType dtype) {
  config::ModelConfig config;
  config.layer = kind;
  config.vocab_size = 96;
  config.hidden_size = 128;
  config.num_layers = 2;
  config.num_heads = 2;
  config.intermediate_size = 192;
  config.initializer_range = 0.1;
  if (kind != config::LayerKind::kDeltaNet) config.head_dim = 64;
  config.preconditioner.enabled = true;
  config.preconditioner.retention = config::Retention::kDataDependent;
  model::LanguageModel model(config, dtype, kGpu);
  model.initialise(7);
  return model;
}

/// [documents, length]
at::Tensor small_tokens(std::int64_t documents, std::int64_t length) {
  return at::arange(documents * length,
                    at::TensorOptions(kGpu).dtype(at::kLong))
      .mul(37)
      .remainder(96)
      .view({documents, length});
}

// fp32 on both sides: the chunk form of the whole sequence and the steps differ
// by rounding alone, some 1e-6 a layer.
TEST(GpuDecode, a_model_goes_on_from_its_state) {
  if (!ops::gpu().usable) FAIL() << "no GPU: " << ops::gpu().why_not;
  const at::NoGradGuard no_grad;
  for (const config::LayerKind kind : kKinds) {
    const model::LanguageModel model = small_model(kind, at::kFloat);
    const at::Tensor tokens = small_tokens(2, 20);
    const at::Tensor whole =
        model.logits(tokens.flatten(), ops::Documents({0, 20, 40}))
            .view({2, 20, 96});
    model::ModelState state;
    model.logits(tokens.narrow(1, 0, 15).flatten(), ops::Documents({0, 15, 30}),
                 &state);
    for (std::int64_t t = 15; t < 20; ++t) {
      const at::Tensor step = model.logits(tokens.select(1, t).contiguous(),
                                           ops::Documents({0, 1, 2}), &state);
      EXPECT_LT(relative_rms(step, whole.select(1, t)), 1e-4)
          << "layer kind " << static_cast<int>(kind) << ", token " << t;
    }
  }
}

// The recorded step launches the same kernels on the same shapes.
TEST(GpuDecode, a_recorded_step_gives_the_bits_of_the_model) {
  if (!ops::gpu().usable) FAIL() << "no GPU: " << ops::gpu().why_not;
  ASSERT_TRUE(ops::GpuGraph::possible(kGpu));
  const at::NoGradGuard no_grad;
  for (const config::LayerKind kind : kKinds) {
    for (const at::ScalarType dtype : {at::kBFloat16, at::kFloat}) {
      const model::LanguageModel model = small_model(kind, dtype);
      ASSERT_TRUE(model.steps_in_place());
      const std::int64_t kPrompt = 9;
      for (const std::int64_t N : {1, 3}) {
        const at::Tensor tokens = small_tokens(N, 20);
        std::vector<std::int64_t> prompts, singles;
        for (std::int64_t n = 0; n <= N; ++n) {
          prompts.push_back(kPrompt * n);
          singles.push_back(n);
        }
        model::ModelState state;
        model.hidden(tokens.narrow(1, 0, kPrompt).flatten(),
                     ops::Documents(prompts), &state);
        const model::ModelState prompt = state;
        const at::Tensor S = state.layers[0].state.clone();
        model::Decoder decoder(model, state);
        for (std::int64_t t = kPrompt; t < 20; ++t) {
          const at::Tensor next = tokens.select(1, t).contiguous();
          const at::Tensor right =
              model.logits(next, ops::Documents(singles), &state);
          EXPECT_TRUE(at::equal(decoder.logits(next), right))
              << "layer kind " << static_cast<int>(kind) << ", " << N
              << " documents, token " << t;
        }
        for (std::size_t layer = 0; layer < state.layers.size(); ++layer) {
          for (const model::StateTensor& entry : model::state_tensors()) {
            const at::Tensor& right = state.layers[layer].*entry.tensor;
            if (!right.defined()) continue;
            EXPECT_TRUE(
                at::equal(decoder.state().layers[layer].*entry.tensor, right))
                << entry.name;
          }
        }
        EXPECT_TRUE(decoder.recorded());
        EXPECT_TRUE(at::equal(prompt.layers[0].state, S))
            << "the state that it started from has changed";
      }
    }
  }
}

}  // namespace
}  // namespace osdn::test
