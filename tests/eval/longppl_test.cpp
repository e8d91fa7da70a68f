// Perplexity by position against one pass of plain LibTorch over each block.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "osdn/core/concat.h"
#include "osdn/eval/csv_tables.h"
#include "osdn/eval/evaluation.h"
#include "osdn/model/trained_model.h"
#include "osdn/tokenizer/tokenizer.h"
#include "support/message_of.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace osdn::eval {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr std::int64_t kBlock = 20480;
constexpr std::int64_t kBucket = 2048;

class LongPpl : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<osdn::test::TempDir>();
    test::write_tokenizer(*dir_ / "t.model");
    test::save_checkpoint(*dir_ / "osdn", 1, test::osdn_apf_model());
    test::save_checkpoint(*dir_ / "plain", 1, test::deltanet_model());
    // One and a half blocks, then one and a bit.
    test::put_file(*dir_ / "novels/a.txt", text_of(1, kBlock * 3 / 2));
    test::put_file(*dir_ / "novels/b.txt", text_of(2, kBlock + 100));
    test::put_file(*dir_ / "short.txt", test::tiny_text(1, 5));
  }
  static void TearDownTestSuite() { dir_.reset(); }

  static tokenizer::Tokenizer tokenizer() {
    return tokenizer::Tokenizer(*dir_ / "t.model");
  }
  /// Lines of at least so many tokens.
  static std::string text_of(std::uint64_t seed, std::int64_t tokens) {
    const auto measure = tokenizer();
    const std::string some = test::tiny_text(seed, 100);
    const std::int64_t lines =
        tokens * 100 / std::ssize(measure.encode(some)) + 20;
    return test::tiny_text(seed, static_cast<int>(lines));
  }
  static EvalOptions options() {
    EvalOptions options;
    options.tasks = {"longppl"};
    options.model = *dir_ / "osdn";
    options.tokenizer = *dir_ / "t.model";
    options.data.inputs = {dir_->path()};
    options.dtype = "fp32";
    return options;
  }
  static std::vector<std::int32_t> tokens_of(const char* name) {
    std::ifstream in(*dir_ / name);
    return tokenizer().encode(
        std::string(std::istreambuf_iterator<char>(in), {}));
  }
  static double value(const Evaluation& evaluation, const std::string& metric) {
    for (const Result& result : evaluation.results) {
      if (result.metric == metric) return result.value;
    }
    ADD_FAILURE() << "no metric " << metric;
    return 0;
  }

  static std::unique_ptr<osdn::test::TempDir> dir_;
};
std::unique_ptr<osdn::test::TempDir> LongPpl::dir_;

/// d of all layers in one pass.
class Trace : public layers::AttentionObserver {
 public:
  void on_attention(const layers::AttentionTrace& trace) override {
    d.push_back(
        ops::preconditioner_trace({trace.k, trace.beta, trace.r, trace.d0},
                                  trace.documents, trace.options));
  }
  std::vector<at::Tensor> d;
};

/// Sums over blocks, by bucket.
struct Expected {
  at::Tensor nll = at::zeros({10}, at::kDouble);
  at::Tensor d = at::zeros({10}, at::kDouble);
  at::Tensor on_box = at::zeros({10}, at::kDouble);

  void add(model::TrainedModel& trained, at::Tensor tokens) {
    const at::NoGradGuard no_grad;
    Trace trace;
    trained.model.observe(&trace);
    const at::Tensor log_prob = at::log_softmax(
        trained.model.logits(tokens, ops::Documents::single(kBlock)), 1);
    trained.model.observe(nullptr);
    const at::Tensor labels = tokens.narrow(0, 1, kBlock - 1).unsqueeze(1);
    at::Tensor per_position = at::zeros({kBlock}, at::kDouble);
    per_position.narrow(0, 0, kBlock - 1)
        .copy_(-log_prob.narrow(0, 0, kBlock - 1).gather(1, labels).squeeze(1));
    nll += per_position.view({10, kBucket}).sum(1);
    for (const at::Tensor& layer : trace.d) {
      const at::Tensor flat = layer.to(at::kDouble).reshape({10, -1});
      d += flat.mean(1) / static_cast<double>(trace.d.size());
      on_box +=
          (flat.eq(0.5).logical_or(flat.eq(2.0))).to(at::kDouble).mean(1) /
          static_cast<double>(trace.d.size());
    }
  }
};

at::Tensor block(const std::vector<std::int32_t>& tokens, std::int64_t index) {
  std::vector<std::int64_t> ids(tokens.begin() + index * kBlock,
                                tokens.begin() + (index + 1) * kBlock);
  return at::tensor(at::ArrayRef<std::int64_t>(ids), at::kLong);
}

TEST_F(LongPpl, buckets_equal_one_pass_over_each_block) {
  auto tokens = tokens_of("novels/a.txt");
  const auto more = tokens_of("novels/b.txt");
  tokens.insert(tokens.end(), more.begin(), more.end());
  ASSERT_EQ(std::ssize(tokens) / kBlock, 2);
  model::TrainedModel trained =
      model::load_trained_model(*dir_ / "osdn", at::kFloat, at::kCPU);
  Expected expected;
  for (const std::int64_t i : {0, 1}) expected.add(trained, block(tokens, i));

  EvalOptions request = options();
  request.batch_tokens = 3000;  // no multiple of a bucket
  const Evaluation got = evaluate(request);
  ASSERT_TRUE(got.failures.empty()) << got.failures[0].message;
  EXPECT_EQ(got.results[0].n, 2);
  EXPECT_EQ(got.results[0].protocol, "blocks");
  EXPECT_EQ(got.results[0].max_len, kBlock);
  std::vector<double> perplexity;
  for (std::int64_t i = 0; i < 10; ++i) {
    const double count = 2 * static_cast<double>(kBucket - (i == 9 ? 1 : 0));
    perplexity.push_back(std::exp(expected.nll[i].item<double>() / count));
    // Sums of 4,096 float32 logits: 1e-6 each at most, relative to their mean.
    EXPECT_NEAR(value(got, concat("perplexity_", i)) / perplexity.back(), 1,
                1e-5);
    EXPECT_NEAR(value(got, concat("mean_d_", i)),
                expected.d[i].item<double>() / 2, 1e-5);
    EXPECT_NEAR(value(got, concat("on_box_", i)),
                expected.on_box[i].item<double>() / 2, 1e-4);
  }
  EXPECT_GT(value(got, "on_box_5"), 0);
  EXPECT_NEAR(value(got, "perplexity"),
              std::exp(expected.nll.sum().item<double>() /
                       (2 * static_cast<double>(kBlock - 1))),
              1e-3);
  EXPECT_NEAR(value(got, "drift"), perplexity[9] - perplexity[1], 1e-2);

  const auto tables = csv_tables(got.results);
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[0].name, "longppl_blocks_buckets.csv");
  EXPECT_THAT(tables[0].text,
              HasSubstr("mean_d,on_box,perplexity,position,tokens\n"));
  EXPECT_EQ(std::count(tables[0].text.begin(), tables[0].text.end(), '\n'), 11);
  EXPECT_EQ(tables[1].name, "longppl_blocks_overall.csv");
  EXPECT_THAT(tables[1].text, HasSubstr("\ndrift,"));
}

TEST_F(LongPpl, options_of_the_task) {
  EvalOptions request = options();
  request.model = *dir_ / "plain";
  request.parity = "fla";
  Evaluation got = evaluate(request);
  EXPECT_EQ(got.results[0].protocol, "fla");
  EXPECT_TRUE(got.results[0].bos);
  const json buckets = json::parse(got.results[0].detail).at("buckets");
  // The last position is scored too.
  EXPECT_EQ(buckets[9].at("tokens"), 2 * kBucket);
  // Without a preconditioner there is no d.
  EXPECT_FALSE(buckets[0].contains("mean_d"));

  request.parity.clear();
  request.per_doc = true;
  request.data.inputs = {*dir_ / "novels", *dir_ / "short.txt"};
  got = evaluate(request);
  EXPECT_EQ(got.results[0].protocol, "blocks, first of each document");
  EXPECT_EQ(got.results[0].n, 2);
  EXPECT_EQ(got.results[0].dropped, 1);
  EXPECT_FALSE(got.results[0].bos);

  request.data.inputs = {*dir_ / "short.txt"};
  got = evaluate(request);
  ASSERT_EQ(got.failures.size(), 1U);
  EXPECT_THAT(got.failures[0].message, HasSubstr("no block of 20480 tokens"));
  request.parity = "pg19";
  EXPECT_THAT(test::message_of([&] { evaluate(request); }, ExitCode::kUsage),
              HasSubstr("--parity is 'pg19'"));
}

}  // namespace
}  // namespace osdn::eval
