// The decoding step on the GPU: tokens one by one against whole sequences
// through the separate operators in float64 on the CPU; and a model that goes
// on from its state.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "ops/decode_step_cases.h"
#include "osdn/model/language_model.h"
#include "osdn/ops/gpu.h"

namespace osdn::test {
namespace {

const at::Device kGpu(at::kCUDA, 0);

class GpuDecodeStep : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (!ops::gpu().usable) FAIL() << "no GPU: " << ops::gpu().why_not;
  }
};

std::vector<at::Tensor> tensors_of(const DecodeStepResult& r) {
  std::vector<at::Tensor> all = {r.o, r.state.state, r.state.conv_q,
                                 r.state.conv_k, r.state.conv_v};
  if (r.state.d.defined()) all.push_back(r.state.d);
  return all;
}

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
    const auto first = tensors_of(run_steps(c, p, kGpu, GetParam()));
    const auto second = tensors_of(run_steps(c, p, kGpu, GetParam()));
    for (std::size_t i = 0; i < first.size(); ++i) {
      EXPECT_TRUE(at::equal(first[i], second[i])) << c.name << ", tensor " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, GpuDecodeStep,
                         testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& type) {
                           return std::string(at::toString(type.param));
                         });

// fp32 on both sides: the chunk form of the whole sequence and the steps differ
// by rounding alone, some 1e-6 a layer.
TEST(GpuDecode, a_model_goes_on_from_its_state) {
  if (!ops::gpu().usable) FAIL() << "no GPU: " << ops::gpu().why_not;
  const at::NoGradGuard no_grad;
  for (const config::LayerKind kind :
       {config::LayerKind::kDeltaNet, config::LayerKind::kGdn,
        config::LayerKind::kKda}) {
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
    model::LanguageModel model(config, at::kFloat, kGpu);
    model.initialise(7);
    const at::Tensor tokens =
        at::arange(2 * 20, at::TensorOptions(kGpu).dtype(at::kLong))
            .mul(37)
            .remainder(96)
            .view({2, 20});
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

}  // namespace
}  // namespace osdn::test
