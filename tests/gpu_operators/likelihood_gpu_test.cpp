// Continuations scored on the GPU: packing, order and batch size change no
// score (eval.md 1).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "eval/choice_requests.h"
#include "osdn/model/trained_model.h"
#include "osdn/ops/gpu.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace osdn::eval {
namespace {

class GpuLikelihood : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    if (!ops::gpu().usable) FAIL() << "no GPU: " << ops::gpu().why_not;
    nlohmann::json model = test::osdn_apf_model();
    model["hidden_size"] = 256;
    model["intermediate_size"] = 256;
    model["initializer_range"] = 0.05;
    test::write_tokenizer(dir_ / "t.model");
    test::save_checkpoint(dir_ / "run", 1, model);
  }
  /// The bounds of eval.md 1 for one sum.
  static double bound(const Answer& answer) {
    return GetParam() == at::kBFloat16
               ? 2e-2 + 2e-3 * static_cast<double>(answer.tokens)
               : 1e-4;
  }
  static void expect_near(const std::vector<Answer>& got,
                          const std::vector<Answer>& expected) {
    double sum = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double difference =
          got[i].log_likelihood - expected[i].log_likelihood;
      EXPECT_LE(std::abs(difference), bound(got[i])) << i;
      sum += difference;
    }
    EXPECT_LE(std::abs(sum / static_cast<double>(got.size())), 1e-3);
  }

  osdn::test::TempDir dir_;
};

TEST_P(GpuLikelihood, packing_order_and_batch_size_change_no_score) {
  model::TrainedModel trained = model::load_trained_model(
      dir_ / "run", GetParam(), at::Device(at::kCUDA, 0));
  const tokenizer::Tokenizer tokenizer(dir_ / "t.model");
  const auto session = [&](std::int64_t batch_tokens) {
    return ModelSession{trained, &tokenizer, {}, false, batch_tokens, 1};
  };
  RequestBatch batch = test::choice_requests(70);
  ASSERT_GE(batch.requests.size(), 200U);
  const ModelSession whole = session(100000);
  std::vector<Answer> expected = test::likelihoods_alone(whole, batch);
  for (const std::int64_t batch_tokens : {30, 500, 100000}) {
    SCOPED_TRACE(batch_tokens);
    const ModelSession parted = session(batch_tokens);
    expect_near(test::likelihoods(parted, batch), expected);
  }
  std::reverse(batch.requests.begin(), batch.requests.end());
  std::reverse(expected.begin(), expected.end());
  const ModelSession parted = session(500);
  expect_near(test::likelihoods(parted, batch), expected);
}

INSTANTIATE_TEST_SUITE_P(Types, GpuLikelihood,
                         testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& type) {
                           return std::string(at::toString(type.param));
                         });

}  // namespace
}  // namespace osdn::eval
