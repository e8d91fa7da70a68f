// The operators against the golden vectors: outputs, final states and every
// gradient of all layer cores, through LibTorch's autograd, in both types.

#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <tuple>
#include <vector>

#include "ops/tensor_test_support.h"
#include "osdn/ops/delta_rule.h"
#include "osdn/ops/preconditioner.h"
#include "support/golden_file.h"
#include "support/shared_data.h"

namespace osdn::ops {
namespace {

using test::GoldenFile;
using test::relative_rms;

class Golden
    : public testing::TestWithParam<std::tuple<const char*, at::ScalarType>> {
 protected:
  void load(const std::string& path) {
    file_ = test::read_golden(path);
    dtype_ = std::get<1>(GetParam());
  }
  bool has(const std::string& name) const { return file_.has(name); }
  double metadata(const std::string& name) const {
    return std::stod(file_.metadata.at(name));
  }

  /// The tensor in float64; [1, T, ...] loses its batch dimension.
  at::Tensor expected(const std::string& name) const {
    const test::GoldenTensor& golden = file_.at(name);
    const at::Tensor x = test::from_vector(golden.values, golden.shape);
    return x.dim() > 2 && x.size(1) == tokens() ? x.squeeze(0) : x;
  }
  at::Tensor input(const std::string& name) const {
    return expected(name).to(dtype_).requires_grad_();
  }
  std::int64_t tokens() const { return file_.at("k").shape[1]; }

  Documents documents() const {
    if (!has("cu_seqlens")) return Documents::single(tokens());
    const std::vector<double>& offsets = file_.at("cu_seqlens").values;
    return Documents({offsets.begin(), offsets.end()});
  }

  void expect_equal(const at::Tensor& got, const std::string& name) const {
    const at::Tensor want = expected(name);
    ASSERT_TRUE(got.defined()) << name;
    EXPECT_LT(relative_rms(got.reshape_as(want), want),
              dtype_ == at::kDouble ? 1e-9 : 1e-4)
        << name;
  }

  GoldenFile file_;
  at::ScalarType dtype_ = at::kDouble;
};

TEST_P(Golden, equals_every_output_and_gradient) {
  const std::string name =
      std::string("golden/") + std::get<0>(GetParam()) + ".safetensors";
  OSDN_NEEDS_SHARED(name);
  load(test::shared_path(name).string());

  DeltaRuleInputs in;
  in.q = input("q");
  in.k = input("k");
  in.v = input("v");
  in.beta = input("beta");
  if (has("g")) in.g = input("g");
  in.state0 = input("S0");

  PreconditionerInputs pre;
  if (has("d0")) {
    pre.k = in.k;
    pre.beta = in.beta;
    if (has("r")) pre.r = input("r");
    pre.d0 = input("d0");
    PreconditionerOptions options;
    options.eta = metadata("eta");
    options.d_min = metadata("box_lo");
    options.d_max = metadata("box_hi");
    options.beta_aware = file_.metadata.at("beta_aware") == "True";
    const PreconditionerOutput out = preconditioner(pre, documents(), options);
    in.k_write = out.k_write;
    expect_equal(out.d_T, "d_T");
    expect_equal(preconditioner_trace(pre, documents(), options), "d");
  }

  const DeltaRuleOutput out = delta_rule(in, documents());
  expect_equal(out.o, "o");
  expect_equal(out.state_T, "S_T");
  torch::autograd::backward(
      {out.o, out.state_T},
      {expected("do").to(dtype_), expected("dS_T").to(dtype_)});

  expect_equal(in.q.grad(), "grad_q");
  expect_equal(in.k.grad(), "grad_k");
  expect_equal(in.v.grad(), "grad_v");
  expect_equal(in.beta.grad(), "grad_beta");
  expect_equal(in.state0.grad(), "grad_S0");
  if (has("g")) expect_equal(in.g.grad(), "grad_g");
  if (has("d0")) expect_equal(pre.d0.grad(), "grad_d0");
  if (has("r")) expect_equal(pre.r.grad(), "grad_r");
}

INSTANTIATE_TEST_SUITE_P(
    Layers, Golden,
    testing::Combine(testing::Values("deltanet", "deltanet_osdn",
                                     "deltanet_osdn_apf",
                                     "deltanet_osdn_apf_on_the_box",
                                     "deltanet_osdn_beta_free",
                                     "deltanet_osdn_paper_defaults", "gdn",
                                     "gdn_osdn", "gdn_osdn_apf",
                                     "gdn_osdn_apf_varlen", "kda", "kda_osdn",
                                     "kda_osdn_apf", "kda_strong_decay"),
                     testing::Values(at::kDouble, at::kFloat)),
    [](const auto& golden) {
      return std::string(std::get<0>(golden.param)) +
             (std::get<1>(golden.param) == at::kDouble ? "_fp64" : "_fp32");
    });

}  // namespace
}  // namespace osdn::ops
