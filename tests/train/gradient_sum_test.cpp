#include "osdn/train/gradient_sum.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include "train/tiny_run.h"

namespace osdn::train {
namespace {

model::LanguageModel narrow_model() {
  return {test::TinyRun().config().model, at::kBFloat16, at::kCPU};
}

void leave_gradients(const model::LanguageModel& model, double value) {
  for (const model::ModelParameter& p : model.parameters()) {
    at::Tensor& grad = p.tensor.mutable_grad();
    const at::Tensor more = at::full_like(p.tensor.detach(), value);
    // As autograd does: the first pass gives, later ones add.
    grad = grad.defined() ? grad + more : more;
  }
}

TEST(GradientSum, adds_bf16_passes_in_fp32) {
  const model::LanguageModel model = narrow_model();
  GradientSum sum(model);
  // In bf16 256 + 1 is 256: five hundred additions would all be lost.
  leave_gradients(model, 256);
  sum.take();
  for (int i = 0; i < 500; ++i) {
    leave_gradients(model, 1);
    sum.take();
  }
  sum.finish();
  for (const model::ModelParameter& p : model.parameters()) {
    EXPECT_EQ(p.tensor.grad().scalar_type(), at::kFloat) << p.info.name;
    EXPECT_TRUE(p.tensor.grad().eq(756.0).all().item<bool>()) << p.info.name;
  }
}

TEST(GradientSum, one_pass_stays_as_it_is) {
  const model::LanguageModel model = narrow_model();
  GradientSum sum(model);
  leave_gradients(model, 0.5);
  sum.take();
  sum.finish();
  for (const model::ModelParameter& p : model.parameters()) {
    EXPECT_EQ(p.tensor.grad().scalar_type(), p.tensor.scalar_type());
    EXPECT_TRUE(p.tensor.grad().eq(0.5).all().item<bool>());
  }
}

TEST(GradientSum, narrow_models_keep_wide_masters) {
  model::LanguageModel model = narrow_model();
  model.initialise(3);
  std::int64_t narrow = 0;
  for (const model::ModelParameter& p : model.parameters()) {
    EXPECT_EQ(p.master.scalar_type(), at::kFloat) << p.info.name;
    const bool own = p.master.is_same(p.tensor);
    EXPECT_EQ(own, p.tensor.scalar_type() == at::kFloat) << p.info.name;
    EXPECT_TRUE(at::equal(p.tensor.detach(),
                          p.master.detach().to(p.tensor.scalar_type())))
        << p.info.name;
    narrow += !own;
  }
  EXPECT_GT(narrow, 0);
}

}  // namespace
}  // namespace osdn::train
