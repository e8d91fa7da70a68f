#include "osdn/train/pass_runner.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "osdn/train/train_step.h"
#include "support/message_of.h"
#include "train/tiny_run.h"

namespace osdn::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

data::MicroBatch packing(std::vector<std::int64_t> cu_seqlens) {
  data::MicroBatch micro;
  micro.rows = 1;
  for (std::int64_t t = 0; t < cu_seqlens.back(); ++t) {
    micro.tokens.push_back(static_cast<std::int32_t>(1 + t));
    micro.labels.push_back(2 + t);
  }
  micro.valid_labels = cu_seqlens.back();
  micro.cu_seqlens = std::move(cu_seqlens);
  return micro;
}

TEST(PassRunner,
     fills_up_behind_the_last_document_and_counts_in_powers_of_two) {
  const data::MicroBatch filled = filled_up(packing({0, 2, 2, 3}), 5);
  EXPECT_THAT(filled.tokens, ElementsAre(1, 2, 3, 0, 0));
  EXPECT_THAT(filled.labels,
              ElementsAre(2, 3, 4, data::kNoLabel, data::kNoLabel));
  EXPECT_THAT(filled.cu_seqlens, ElementsAre(0, 2, 2, 3, 5));
  EXPECT_EQ(filled.valid_labels, 3);
  EXPECT_THAT(filled_up(packing({0, 2, 2, 3}), 0).cu_seqlens,
              ElementsAre(0, 2, 2, 3, 3));
  EXPECT_THAT(filled_up(packing({0, 3}), 3).cu_seqlens, ElementsAre(0, 3));
}

// The rest of a filled row says nothing: loss and gradients are those of the
// documents, up to the order in which products are summed.
TEST(PassRunner, what_is_filled_up_does_not_count) {
  const config::Config config = test::TinyRun().config();
  model::LanguageModel model(config.model, at::kDouble, at::kCPU);
  model.initialise(3);
  const data::MicroBatch micro = packing({0, 4, 5, 11});
  const at::Tensor labels = at::full({}, 11.0, at::kDouble);
  const auto gradients_of = [&](const data::MicroBatch& batch,
                                at::Tensor& loss) {
    drop_gradients(model);
    loss = plain_pass(model, to_batch(batch, at::kCPU), labels);
    std::vector<at::Tensor> out;
    for (const model::ModelParameter& p : model.parameters()) {
      out.push_back(p.tensor.grad().clone());
    }
    return out;
  };
  at::Tensor loss, filled_loss;
  const auto expected = gradients_of(micro, loss);
  const auto found = gradients_of(filled_up(micro, 32), filled_loss);
  EXPECT_NEAR(filled_loss.item<double>(), loss.item<double>(), 1e-12);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE((found[i] - expected[i]).abs().max().item<double>(), 1e-12)
        << model.parameters()[i].info.name;
  }
}

TEST(PassRunner, refuses_to_record_where_nothing_can_be) {
  const test::TinyRun tiny;
  const auto refused = [&](at::Device device, bool alone) {
    config::Config config = tiny.config("run", {"training.device=auto"});
    config.training.cuda_graph = "on";
    return test::message_of([&] { check_recordable(config, device, alone); },
                            ExitCode::kUsage);
  };
  EXPECT_THAT(refused(at::kCPU, true), HasSubstr("on a CPU"));
  EXPECT_THAT(refused(at::kCPU, false), HasSubstr("training.cuda_graph"));
}

}  // namespace
}  // namespace osdn::train
