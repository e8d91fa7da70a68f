#include "osdn/train/train_step.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "osdn/train/pass_runner.h"
#include "support/held_tensors.h"
#include "train/poison.h"
#include "train/tiny_run.h"

namespace osdn::train {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A model with its optimizer, always the same at first.
struct Rig {
  explicit Rig(at::ScalarType type = at::kDouble)
      : config(test::TinyRun().config()),
        model(config.model, type, at::kCPU),
        adamw(tensors(model), config.optimizer),
        passes(model, config, true) {
    model.initialise(7);
  }

  static std::vector<optim::OptimizedTensor> tensors(
      const model::LanguageModel& model) {
    std::vector<optim::OptimizedTensor> out;
    for (const model::ModelParameter& p : model.parameters()) {
      out.push_back({p.info.name, p.tensor, true});
    }
    return out;
  }

  StepResult step(const data::StepBatch& batch,
                  const std::function<void()>& after_backward = {}) {
    return train_step(passes, adamw, batch, {1e-2, 1.0, after_backward});
  }

  // Every bit of weights and moments.
  std::vector<std::string> bits() const {
    std::vector<std::string> out;
    const auto add = [&](const std::vector<TensorView>& views) {
      for (const TensorView& view : views) {
        out.emplace_back(static_cast<const char*>(view.data), view.bytes());
      }
    };
    add(test::weights_of(model).views());
    std::vector<std::string> names;
    for (const model::ModelParameter& p : model.parameters()) {
      names.push_back(p.info.name);
    }
    add(test::moments_of(adamw, names).views());
    return out;
  }

  config::Config config;
  model::LanguageModel model;
  optim::AdamW adamw;
  PassRunner passes;
};

// One document a row, of unequal lengths; the first `masked` labels of each row
// are left out.
std::vector<data::MicroBatch> rows(std::size_t masked = 0) {
  std::vector<data::MicroBatch> out;
  for (const std::vector<std::int32_t>& document : test::tiny_documents(3, 8)) {
    data::MicroBatch row;
    row.tokens = document;
    for (std::size_t i = 0; i < document.size(); ++i) {
      const bool valid = i >= masked && i + 1 < document.size();
      row.labels.push_back(valid ? document[i + 1] : data::kNoLabel);
      row.valid_labels += valid;
    }
    row.cu_seqlens = {0, static_cast<std::int64_t>(document.size())};
    row.rows = 1;
    out.push_back(row);
  }
  return out;
}

// Deals rows out, `per_batch` to each micro-batch.
data::StepBatch deal(const std::vector<data::MicroBatch>& all,
                     std::size_t per_batch) {
  data::StepBatch batch;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % per_batch == 0) {
      batch.micro_batches.emplace_back();
    }
    data::MicroBatch& into = batch.micro_batches.back();
    const data::MicroBatch& row = all[i];
    into.tokens.insert(into.tokens.end(), row.tokens.begin(), row.tokens.end());
    into.labels.insert(into.labels.end(), row.labels.begin(), row.labels.end());
    into.cu_seqlens.push_back(static_cast<std::int64_t>(into.tokens.size()));
    into.rows += 1;
    into.valid_labels += row.valid_labels;
    batch.valid_labels += row.valid_labels;
    batch.tokens += static_cast<std::int64_t>(row.tokens.size());
  }
  return batch;
}

double distance(const Rig& a, const Rig& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.model.parameters().size(); ++i) {
    worst = std::max(worst, (a.model.parameters()[i].tensor.detach() -
                             b.model.parameters()[i].tensor.detach())
                                .abs()
                                .max()
                                .item<double>());
  }
  return worst;
}

TEST(TrainStep, L1_L2_one_batch_gives_one_update_however_it_is_dealt_out) {
  // Rows of 2 to 25 tokens: a mean of the micro-batches' means would differ.
  struct Case {
    at::ScalarType type;
    double tolerance;
  };
  for (const Case& c : {Case{at::kDouble, 1e-11}, Case{at::kFloat, 1e-4}}) {
    Rig whole(c.type);
    const StepResult expected = whole.step(deal(rows(), 8));
    EXPECT_EQ(expected.outcome, StepOutcome::kUpdated);
    for (const std::size_t per_batch : {1, 2, 3, 4}) {
      Rig dealt(c.type);
      const StepResult got = dealt.step(deal(rows(), per_batch));
      EXPECT_NEAR(got.loss / expected.loss, 1, c.tolerance);
      EXPECT_NEAR(got.grad_norm / expected.grad_norm, 1, c.tolerance);
      EXPECT_LT(distance(whole, dealt), c.tolerance) << per_batch << " a batch";
    }
  }
}

TEST(TrainStep, L1_the_loss_is_the_mean_over_all_labels) {
  Rig rig;
  double sum = 0;
  std::int64_t labels = 0;
  for (const data::MicroBatch& row : rows()) {
    sum += rig.model.loss_sum(to_batch(row, at::kCPU)).item<double>();
    labels += row.valid_labels;
  }
  EXPECT_NEAR(rig.step(deal(rows(), 3)).loss, sum / static_cast<double>(labels),
              1e-12);
}

TEST(TrainStep, L3_micro_batches_without_labels_change_nothing) {
  std::vector<data::MicroBatch> some = rows();
  std::vector<data::MicroBatch> with_empty = some;
  data::MicroBatch unlabelled = some.front();
  unlabelled.labels.assign(unlabelled.tokens.size(), data::kNoLabel);
  unlabelled.valid_labels = 0;
  with_empty.insert(with_empty.begin() + 2, unlabelled);
  with_empty.emplace_back();  // no rows at all
  Rig a, b;
  EXPECT_EQ(a.step(deal(some, 1)).loss, b.step(deal(with_empty, 1)).loss);
  EXPECT_EQ(a.bits(), b.bits());
}

TEST(TrainStep, L3_a_step_without_labels_is_no_update) {
  Rig rig;
  rig.step(deal(rows(), 2));
  const std::vector<std::string> before = rig.bits();
  const StepResult result = rig.step(deal(rows(100), 2));
  EXPECT_EQ(result.outcome, StepOutcome::kUnlabelled);
  EXPECT_EQ(rig.bits(), before);
  EXPECT_EQ(rig.adamw.counters().updates, 1);
}

TEST(TrainStep, P1_a_bad_gradient_leaves_weights_and_moments_untouched) {
  Rig rig, clean;
  rig.step(deal(rows(), 2));
  clean.step(deal(rows(), 2));
  const std::vector<std::string> before = rig.bits();
  const StepResult bad =
      rig.step(deal(rows(), 4), [&] { test::poison_gradient(rig.model); });
  EXPECT_EQ(bad.outcome, StepOutcome::kNonFinite);
  EXPECT_TRUE(std::isfinite(bad.loss));
  EXPECT_FALSE(std::isfinite(bad.grad_norm));
  EXPECT_EQ(rig.bits(), before);
  EXPECT_EQ(rig.adamw.counters().updates, 1);
  // Nothing of the bad step reaches the next one.
  rig.step(deal(rows(1), 2));
  clean.step(deal(rows(1), 2));
  EXPECT_EQ(rig.bits(), clean.bits());
}

TEST(TrainStep, P1_a_bad_loss_is_no_update_either) {
  Rig rig;
  rig.model.parameters().back().tensor.detach().view({-1})[0].fill_(kNan);
  const std::vector<std::string> before = rig.bits();
  const StepResult bad = rig.step(deal(rows(), 4));
  EXPECT_EQ(bad.outcome, StepOutcome::kNonFinite);
  EXPECT_FALSE(std::isfinite(bad.loss));
  EXPECT_EQ(rig.bits(), before);
}

TEST(TrainStep, leaves_no_gradients_behind) {
  Rig rig;
  rig.step(deal(rows(), 4));
  for (const model::ModelParameter& p : rig.model.parameters()) {
    EXPECT_FALSE(p.tensor.grad().defined()) << p.info.name;
  }
}

}  // namespace
}  // namespace osdn::train
