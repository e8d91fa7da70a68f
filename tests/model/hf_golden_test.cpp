// The whole model against checkpoints of the public Python models with exact
// logits and loss: ../shared/golden/hf.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "osdn/model/language_model.h"
#include "osdn/model/weights.h"
#include "support/golden_file.h"
#include "support/shared_data.h"

namespace osdn::model {
namespace {

using config::KeyNorm;
using config::LayerKind;
using config::ModelConfig;
using config::Retention;

ModelConfig small(LayerKind layer) {
  ModelConfig c;
  c.layer = layer;
  c.vocab_size = 256;
  c.hidden_size = 64;
  c.num_layers = 2;
  c.num_heads = 2;
  c.intermediate_size = 128;
  if (layer != LayerKind::kDeltaNet) c.head_dim = 32;
  return c;
}

struct Case {
  const char* folder;
  ModelConfig config;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.folder;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back({"delta_net", small(LayerKind::kDeltaNet)});
  ModelConfig gated = small(LayerKind::kDeltaNet);
  gated.num_heads = 1;
  gated.expand_k = 0.5;
  gated.use_gate = true;
  gated.tie_word_embeddings = true;
  all.push_back({"delta_net_gated_tied", gated});

  ModelConfig osla = small(LayerKind::kDeltaNet);
  osla.preconditioner.enabled = true;
  osla.preconditioner.eta = 1;
  osla.preconditioner.d_min = 0;
  osla.preconditioner.d_max = 2;
  osla.preconditioner.beta_aware = false;
  osla.preconditioner.norm = KeyNorm::kOff;
  all.push_back({"osla_delta_net", osla});
  osla.preconditioner.d_max = 1e9;
  osla.preconditioner.retention = Retention::kDataDependent;
  all.push_back({"osla_delta_net_apf", osla});

  all.push_back({"gated_deltanet", small(LayerKind::kGdn)});
  ModelConfig tied = small(LayerKind::kGdn);
  tied.num_heads = 3;
  tied.preconditioner.enabled = true;
  tied.preconditioner.d_min = 2.0 / 3.0;
  tied.preconditioner.d_max = 1.5;
  tied.preconditioner.norm = KeyNorm::kOff;
  tied.preconditioner.retention = Retention::kTied;
  all.push_back({"os_gated_deltanet_tied", tied});

  all.push_back({"kda", small(LayerKind::kKda)});
  ModelConfig bounded = small(LayerKind::kKda);
  bounded.safe_gate = true;
  bounded.lower_bound = -5;
  all.push_back({"kda_bounded", bounded});
  ModelConfig kda_apf = small(LayerKind::kKda);
  kda_apf.preconditioner = tied.preconditioner;
  kda_apf.preconditioner.retention = Retention::kDataDependent;
  all.push_back({"os_kda_apf", kda_apf});
  return all;
}

double relative_rms(const at::Tensor& got, const at::Tensor& expected) {
  return ((got.to(at::kDouble) - expected).norm() / expected.norm())
      .item<double>();
}

class HfGolden : public testing::TestWithParam<Case> {
 protected:
  void compare(at::ScalarType dtype, double tolerance) {
    const std::string folder = std::string("golden/hf/") + GetParam().folder;
    OSDN_NEEDS_SHARED(folder);
    const test::GoldenFile golden = test::read_golden(
        (test::shared_path(folder) / "expected.safetensors").string());
    LanguageModel model(GetParam().config, dtype, at::kCPU);
    load_weights(model, test::shared_path(folder) / "model.safetensors");

    const at::NoGradGuard no_grad;
    const auto& ids = golden.at("input_ids");
    const std::int64_t rows = ids.shape[0], T = ids.shape[1];
    const at::Tensor tokens = at::tensor(ids.values, at::kDouble).to(at::kLong);
    std::vector<std::int64_t> cu_seqlens;
    for (std::int64_t row = 0; row <= rows; ++row)
      cu_seqlens.push_back(row * T);
    const ops::Documents documents(cu_seqlens);
    const at::Tensor logits = model.logits(tokens, documents);
    const auto& expected = golden.at("logits");
    EXPECT_LT(relative_rms(logits, at::tensor(expected.values, at::kDouble)
                                       .view({rows * T, expected.shape[2]})),
              tolerance);

    at::Tensor labels = at::full({rows, T}, ops::kNoLabel, at::kLong);
    labels.narrow(1, 0, T - 1)
        .copy_(tokens.view({rows, T}).narrow(1, 1, T - 1));
    const double loss =
        model.loss_sum({tokens, labels.flatten(), documents}).item<double>() /
        static_cast<double>(rows * (T - 1));
    EXPECT_NEAR(loss, golden.at("loss").values.at(0), tolerance * 10);
  }
};

TEST_P(HfGolden, logits_and_loss_in_float64) {
  compare(at::kDouble, 1e-7);
}
TEST_P(HfGolden, logits_and_loss_in_float32) {
  compare(at::kFloat, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, HfGolden, testing::ValuesIn(cases()),
                         [](const auto& c) {
                           return std::string(c.param.folder);
                         });

}  // namespace
}  // namespace osdn::model
