// Scores of packed windows against one token at a time, and what must not
// change them: packing, batch size, order.

#include "osdn/eval/window_batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "osdn/core/random.h"
#include "osdn/model/trained_model.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace osdn::eval {
namespace {

constexpr std::int32_t kPrefix = 1;

void ignore(std::int64_t) {}

std::vector<std::int32_t> random_tokens(std::uint64_t seed, std::int64_t n) {
  Xoshiro256 random(seed);
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < n; ++i) {
    tokens.push_back(static_cast<std::int32_t>(
        random.below(static_cast<std::uint64_t>(test::kVocab))));
  }
  return tokens;
}

/// Documents of 1 to 60 tokens in windows of 16.
std::vector<WindowRequest> sample_requests(int documents) {
  std::vector<WindowRequest> requests;
  Xoshiro256 random(5);
  for (int i = 0; i < documents; ++i) {
    const auto n = 1 + static_cast<std::int64_t>(random.below(60));
    for (WindowRequest& request : window_requests(
             i, random_tokens(random.below(1000), n), kPrefix, 16)) {
      requests.push_back(std::move(request));
    }
  }
  return requests;
}

class WindowBatches : public testing::Test {
 protected:
  void SetUp() override {
    test::save_checkpoint(run(), 1, test::osdn_apf_model());
  }
  std::filesystem::path run() const { return dir_ / "run"; }
  model::TrainedModel load(at::ScalarType dtype) const {
    return model::load_trained_model(run(), dtype, at::kCPU);
  }

  osdn::test::TempDir dir_;
};

TEST_F(WindowBatches, sums_equal_one_token_at_a_time) {
  const model::TrainedModel fp64 = load(at::kDouble);
  const model::TrainedModel fp32 = load(at::kFloat);
  const std::vector<std::int32_t> tokens = random_tokens(3, 37);
  const std::vector<std::optional<std::int64_t>> lengths = {
      1, 7, 36, 37, 500, std::nullopt};
  for (const auto& max_len : lengths) {
    const auto requests = window_requests(0, tokens, kPrefix, max_len);
    const auto sums = score_requests(fp64.model, requests, 64, ignore);
    const auto sums32 = score_requests(fp32.model, requests, 64, ignore);
    std::int64_t scored = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto rows = test::token_by_token(run(), requests[i].input);
      double expected = 0;
      for (std::size_t t = 0; t < rows.size(); ++t) {
        const std::int64_t label = requests[i].labels[t];
        if (label == ops::kNoLabel) continue;
        expected += rows[t][static_cast<std::size_t>(label)];
        EXPECT_EQ(label, tokens[static_cast<std::size_t>(scored++)]);
      }
      EXPECT_NEAR(sums[i].log_likelihood, expected, 1e-9);
      EXPECT_NEAR(sums32[i].log_likelihood, expected, 1e-4);
    }
    EXPECT_EQ(scored, 37);
  }
}

TEST_F(WindowBatches, packing_batch_size_and_order_change_no_score) {
  const model::TrainedModel trained = load(at::kFloat);
  const auto requests = sample_requests(100);
  ASSERT_GE(requests.size(), 200U);
  std::vector<double> alone;
  for (const WindowRequest& request : requests) {
    alone.push_back(score_requests(trained.model, {request}, 1000, ignore)
                        .front()
                        .log_likelihood);
  }
  // Of the windows' length, so one a batch; not a multiple of it; all at once.
  for (const std::int64_t batch_tokens : {16, 100, 100000}) {
    const auto sums =
        score_requests(trained.model, requests, batch_tokens, ignore);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      EXPECT_NEAR(sums[i].log_likelihood, alone[i], 1e-4)
          << i << ", " << batch_tokens;
    }
  }
  std::vector<std::size_t> order(requests.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  Xoshiro256 random(9);
  for (std::size_t i = order.size() - 1; i > 0; --i) {
    std::swap(order[i], order[random.below(i + 1)]);
  }
  std::vector<WindowRequest> shuffled;
  for (const std::size_t i : order) shuffled.push_back(requests[i]);
  const auto sums = score_requests(trained.model, shuffled, 100, ignore);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    EXPECT_NEAR(sums[i].log_likelihood, alone[order[i]], 1e-4) << i;
  }
}

TEST_F(WindowBatches, a_window_longer_than_the_batch_equals_one_pass) {
  const model::TrainedModel trained = load(at::kDouble);
  // Short ones around it, so that its state must not leak into them.
  std::vector<WindowRequest> requests;
  for (const std::int64_t n : {9, 150, 9}) {
    requests.push_back(
        window_requests(n, random_tokens(static_cast<std::uint64_t>(n), n),
                        kPrefix, std::nullopt)
            .front());
  }
  const auto whole = score_requests(trained.model, requests, 1000, ignore);
  for (const std::int64_t batch_tokens : {1, 9, 64, 149}) {
    const auto pieces =
        score_requests(trained.model, requests, batch_tokens, ignore);
    for (std::size_t i = 0; i < whole.size(); ++i) {
      EXPECT_NEAR(pieces[i].log_likelihood, whole[i].log_likelihood, 1e-9)
          << batch_tokens;
    }
  }
}

TEST_F(WindowBatches, progress_counts_every_input_token_once) {
  const model::TrainedModel trained = load(at::kFloat);
  const auto requests = sample_requests(10);
  std::int64_t total = 0;
  for (const WindowRequest& request : requests) {
    total += static_cast<std::int64_t>(request.input.size());
  }
  for (const std::int64_t batch_tokens : {5, 40}) {
    std::int64_t last = 0;
    run_requests(
        trained.model, requests, batch_tokens, [&](std::int64_t tokens) {
          EXPECT_GT(tokens, last);
          // Shorter than a chunk none is cut.
          EXPECT_LE(tokens - last, std::max<std::int64_t>(batch_tokens, 64));
          last = tokens;
        });
    EXPECT_EQ(last, total);
  }
}

/// The passes that the model was given.
class PassLengths : public layers::AttentionObserver {
 public:
  void on_attention(const layers::AttentionTrace& trace) override {
    if (trace.layer == 0) tokens.push_back(trace.documents.tokens());
  }
  std::vector<std::int64_t> tokens;
};

// What a pass holds is all that grows with its tokens: the longest document
// takes the memory of one batch.
TEST_F(WindowBatches, a_pass_never_grows_with_the_document) {
  model::TrainedModel trained = load(at::kFloat);
  PassLengths passes;
  trained.model.observe(&passes);
  const auto requests =
      window_requests(0, random_tokens(2, 5000), kPrefix, std::nullopt);
  score_requests(trained.model, requests, 70, ignore);
  run_requests(trained.model, requests, 70, ignore);
  ASSERT_FALSE(passes.tokens.empty());
  EXPECT_EQ(std::ranges::max(passes.tokens), 64);  // whole chunks
}

// Inside a chunk a cut would move scores in bf16.
TEST_F(WindowBatches, cuts_lie_between_chunks) {
  model::TrainedModel trained = load(at::kFloat);
  PassLengths passes;
  trained.model.observe(&passes);
  const auto requests =
      window_requests(0, random_tokens(4, 300), kPrefix, std::nullopt);
  for (const std::int64_t batch_tokens : {1, 63, 64, 65, 130, 299}) {
    passes.tokens.clear();
    score_requests(trained.model, requests, batch_tokens, ignore);
    ASSERT_GT(passes.tokens.size(), 1U) << batch_tokens;
    passes.tokens.pop_back();
    for (const std::int64_t tokens : passes.tokens) {
      EXPECT_EQ(tokens % 64, 0) << batch_tokens;
    }
  }
}

TEST(BlockRequests, hold_every_position_once) {
  const std::vector<std::int32_t> tokens = {10, 11, 12, 13};
  const auto blocks = block_requests(3, tokens, kPrefix, 2);
  ASSERT_EQ(blocks.size(), 3U);
  EXPECT_EQ(blocks[0].input, (std::vector<std::int32_t>{1, 10}));
  EXPECT_EQ(blocks[1].input, (std::vector<std::int32_t>{11, 12}));
  EXPECT_EQ(blocks[2].input, (std::vector<std::int32_t>{13}));
  for (const WindowRequest& block : blocks) {
    EXPECT_EQ(block.document, 3);
    EXPECT_EQ(block.labels.size(), block.input.size());
    for (const std::int64_t label : block.labels) {
      EXPECT_EQ(label, ops::kNoLabel);
    }
  }
  const auto whole = block_requests(0, tokens, kPrefix, std::nullopt);
  ASSERT_EQ(whole.size(), 1U);
  EXPECT_EQ(whole[0].input, (std::vector<std::int32_t>{1, 10, 11, 12, 13}));
}

}  // namespace
}  // namespace osdn::eval
