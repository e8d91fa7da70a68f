// The float64 references against the golden vectors: outputs and every
// gradient, through the L2 normalisation and the preconditioner.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "reference/delta_rule_reference.h"
#include "reference/preconditioner_reference.h"
#include "support/golden_file.h"
#include "support/shared_data.h"

namespace osdn::reference {
namespace {

double relative_rms(const Values& got, const Values& expected) {
  EXPECT_EQ(got.size(), expected.size());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < std::min(got.size(), expected.size()); ++i) {
    difference += (got[i] - expected[i]) * (got[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

constexpr double kTolerance = 1e-12;

class GoldenReference : public testing::TestWithParam<const char*> {};

TEST_P(GoldenReference, equals_every_output_and_gradient) {
  const std::string name = std::string("golden/") + GetParam() + ".safetensors";
  OSDN_NEEDS_SHARED(name);
  const test::GoldenFile golden =
      test::read_golden(test::shared_path(name).string());

  DeltaRuleInput in;
  const auto& k_shape = golden.at("k").shape;
  in.key_heads = in.value_heads = k_shape[2];
  in.key_width = k_shape[3];
  in.value_width = golden.at("v").shape[3];
  in.l2_norm = true;
  in.cu_seqlens = {0, k_shape[1]};
  if (golden.has("cu_seqlens")) {
    const Values& offsets = golden.at("cu_seqlens").values;
    in.cu_seqlens.assign(offsets.begin(), offsets.end());
  }
  in.q = golden.at("q").values;
  in.k = golden.at("k").values;
  in.v = golden.at("v").values;
  in.beta = golden.at("beta").values;
  in.g = golden.values_or_empty("g");
  in.state0 = golden.at("S0").values;

  const std::size_t K = static_cast<std::size_t>(in.key_width);
  PreconditionerInput pre;
  PreconditionerOutput diagonal;
  const bool preconditioned = golden.has("d0");
  if (preconditioned) {
    pre.key_heads = pre.value_heads = in.key_heads;
    pre.key_width = in.key_width;
    pre.eta = std::stod(golden.metadata.at("eta"));
    pre.box_lo = std::stod(golden.metadata.at("box_lo"));
    pre.box_hi = std::stod(golden.metadata.at("box_hi"));
    pre.beta_aware = golden.metadata.at("beta_aware") == "True";
    pre.cu_seqlens = in.cu_seqlens;
    pre.k = in.k;
    for (std::size_t row = 0; row < in.k.size(); row += K) {
      const double factor =
          detail::reciprocal_norm(&in.k[row], in.key_width, true);
      for (std::size_t c = 0; c < K; ++c) pre.k[row + c] *= factor;
    }
    pre.beta = in.beta;
    pre.r = golden.values_or_empty("r");
    pre.d0 = golden.at("d0").values;
    diagonal = preconditioner_forward(pre);
    EXPECT_LT(relative_rms(diagonal.d, golden.at("d").values), kTolerance);
    EXPECT_LT(relative_rms(diagonal.d_T, golden.at("d_T").values), kTolerance);
    in.k_write = in.k;
    for (std::size_t i = 0; i < in.k.size(); ++i) {
      in.k_write[i] *= diagonal.d[i];
    }
  }

  const DeltaRuleOutput out = delta_rule_forward(in);
  EXPECT_LT(relative_rms(out.o, golden.at("o").values), kTolerance);
  EXPECT_LT(relative_rms(out.state_T, golden.at("S_T").values), kTolerance);

  DeltaRuleGradients grad =
      delta_rule_backward(in, golden.at("do").values, golden.at("dS_T").values);
  if (preconditioned) {
    // kt_raw = d k_raw: to k directly, and to d, from there on to the
    // normalised key, beta, r and d0.
    Values grad_d(in.k.size());
    for (std::size_t i = 0; i < in.k.size(); ++i) {
      grad_d[i] = grad.k_write[i] * in.k[i];
      grad.k[i] += grad.k_write[i] * diagonal.d[i];
    }
    const PreconditionerGradients back =
        preconditioner_backward(pre, grad_d, {});
    for (std::size_t row = 0; row < in.k.size(); row += K) {
      const double factor =
          detail::reciprocal_norm(&in.k[row], in.key_width, true);
      double dot = 0;
      for (std::size_t c = 0; c < K; ++c)
        dot += in.k[row + c] * back.k[row + c];
      for (std::size_t c = 0; c < K; ++c) {
        grad.k[row + c] += factor * back.k[row + c] -
                           factor * factor * factor * dot * in.k[row + c];
      }
    }
    for (std::size_t i = 0; i < grad.beta.size(); ++i) {
      grad.beta[i] += back.beta[i];
    }
    EXPECT_LT(relative_rms(back.d0, golden.at("grad_d0").values), kTolerance);
    if (golden.has("grad_r")) {
      EXPECT_LT(relative_rms(back.r, golden.at("grad_r").values), kTolerance);
    }
  }
  EXPECT_LT(relative_rms(grad.q, golden.at("grad_q").values), kTolerance);
  EXPECT_LT(relative_rms(grad.k, golden.at("grad_k").values), kTolerance);
  EXPECT_LT(relative_rms(grad.v, golden.at("grad_v").values), kTolerance);
  EXPECT_LT(relative_rms(grad.beta, golden.at("grad_beta").values), kTolerance);
  EXPECT_LT(relative_rms(grad.state0, golden.at("grad_S0").values), kTolerance);
  if (golden.has("grad_g")) {
    EXPECT_LT(relative_rms(grad.g, golden.at("grad_g").values), kTolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layers, GoldenReference,
    testing::Values("deltanet", "deltanet_osdn", "deltanet_osdn_apf",
                    "deltanet_osdn_apf_on_the_box", "deltanet_osdn_beta_free",
                    "deltanet_osdn_paper_defaults", "gdn", "gdn_osdn",
                    "gdn_osdn_apf", "gdn_osdn_apf_varlen", "kda", "kda_osdn",
                    "kda_osdn_apf", "kda_strong_decay"),
    [](const auto& golden) { return std::string(golden.param); });

}  // namespace
}  // namespace osdn::reference
