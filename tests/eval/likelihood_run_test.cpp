// Scores of continuations against one token at a time, and what must not change
// them: packing, order, batch size, a beginning that rows share.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "choice_requests.h"
#include "osdn/core/concat.h"
#include "osdn/core/random.h"
#include "osdn/eval/likelihood_packs.h"
#include "osdn/eval/model_runs.h"
#include "osdn/model/trained_model.h"
#include "support/tiny_model.h"

namespace osdn::eval {
namespace {

class LikelihoodRun : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<osdn::test::TempDir>();
    test::write_tokenizer(*dir_ / "t.model");
    test::save_checkpoint(*dir_ / "osdn", 1, test::osdn_apf_model());
    test::save_checkpoint(*dir_ / "hybrid", 1, test::hybrid_model());
    test::save_checkpoint(*dir_ / "softmax", 1, test::transformer_model());
  }
  static void TearDownTestSuite() { dir_.reset(); }

  /// A model with what a call sets.
  struct Opened {
    model::TrainedModel trained;
    tokenizer::Tokenizer tokenizer;
    ModelSession session(std::int64_t batch_tokens,
                         std::optional<std::int64_t> max_len = {}) {
      return {trained, &tokenizer, max_len, false, batch_tokens, 1};
    }
  };
  static Opened open(const std::string& model, at::ScalarType dtype) {
    return {model::load_trained_model(*dir_ / model, dtype, at::kCPU),
            tokenizer::Tokenizer(*dir_ / "t.model")};
  }
  static std::vector<Answer> answers(const ModelSession& session,
                                     const RequestBatch& batch) {
    return test::likelihoods(session, batch);
  }
  static void expect_near(const std::vector<Answer>& got,
                          const std::vector<Answer>& expected, double bound) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_NEAR(got[i].log_likelihood, expected[i].log_likelihood, bound)
          << i;
      EXPECT_EQ(got[i].greedy, expected[i].greedy) << i;
      EXPECT_EQ(got[i].tokens, expected[i].tokens) << i;
    }
  }

  static std::unique_ptr<osdn::test::TempDir> dir_;
};
std::unique_ptr<osdn::test::TempDir> LikelihoodRun::dir_;

TEST_F(LikelihoodRun, equals_one_token_at_a_time) {
  const RequestBatch batch = test::choice_requests(12);
  for (const char* name : {"osdn", "hybrid", "softmax"}) {
    SCOPED_TRACE(name);
    Opened opened = open(name, at::kDouble);
    const std::vector<Answer> got = answers(opened.session(300, 40), batch);
    bool greedy = false, cut = false;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Request& request = batch.requests[i];
      // eval.md 1 written out.
      auto tokens =
          opened.tokenizer.encode(request.context + request.continuation);
      std::int64_t first =
          std::ssize(opened.tokenizer.encode(request.context)) - 1;
      const std::int64_t over = std::ssize(tokens) - 41;
      if (over > 0) {
        tokens.erase(tokens.begin(), tokens.begin() + over);
        first -= over;
      }
      const auto rows = test::token_by_token(
          *dir_ / name, {tokens.begin(), tokens.end() - 1});
      double sum = 0;
      bool all_largest = true;
      for (std::size_t t = static_cast<std::size_t>(first); t < rows.size();
           ++t) {
        const auto label = static_cast<std::size_t>(tokens[t + 1]);
        sum += rows[t][label];
        all_largest =
            all_largest && std::max_element(rows[t].begin(), rows[t].end()) -
                                   rows[t].begin() ==
                               static_cast<std::ptrdiff_t>(label);
      }
      EXPECT_NEAR(got[i].log_likelihood, sum, 1e-9) << i;
      EXPECT_EQ(got[i].greedy, all_largest) << i;
      EXPECT_EQ(got[i].truncated, over > 0) << i;
      greedy = greedy || all_largest;
      cut = cut || over > 0;
    }
    EXPECT_TRUE(cut);
  }
}

TEST_F(LikelihoodRun, packing_order_and_batch_size_change_no_score) {
  const RequestBatch batch = test::choice_requests(70);
  ASSERT_GE(batch.requests.size(), 200U);
  for (const char* name : {"osdn", "hybrid"}) {
    SCOPED_TRACE(name);
    Opened opened = open(name, at::kFloat);
    const std::vector<Answer> expected =
        test::likelihoods_alone(opened.session(100000), batch);
    for (const std::int64_t batch_tokens : {30, 500, 100000}) {
      SCOPED_TRACE(batch_tokens);
      expect_near(answers(opened.session(batch_tokens), batch), expected, 1e-4);
    }
    // Rows apart from the others of their document share nothing.
    std::vector<std::size_t> order(batch.requests.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    Xoshiro256 random(9);
    for (std::size_t i = order.size() - 1; i > 0; --i) {
      std::swap(order[i], order[random.below(i + 1)]);
    }
    RequestBatch shuffled;
    std::vector<Answer> expected_shuffled;
    for (const std::size_t i : order) {
      shuffled.requests.push_back(batch.requests[i]);
      expected_shuffled.push_back(expected[i]);
    }
    expect_near(answers(opened.session(500), shuffled), expected_shuffled,
                1e-4);
  }
}

TEST_F(LikelihoodRun, a_row_without_anything_to_score_is_certain) {
  Opened opened = open("osdn", at::kFloat);
  RequestBatch batch = test::choice_requests(2);
  batch.requests[1].continuation = "";
  const auto got = answers(opened.session(500), batch);
  EXPECT_EQ(got[1].log_likelihood, 0);
  EXPECT_TRUE(got[1].greedy);
  RequestBatch only;
  only.requests = {batch.requests[1]};
  EXPECT_EQ(answers(opened.session(500), only)[0], got[1]);
}

TEST_F(LikelihoodRun, two_runs_give_the_same_bits) {
  Opened opened = open("osdn", at::kFloat);
  const RequestBatch batch = test::choice_requests(20);
  EXPECT_EQ(answers(opened.session(300), batch),
            answers(opened.session(300), batch));
}

/// Counts the tokens that a model runs.
class CountedTokens : public layers::AttentionObserver {
 public:
  void on_attention(const layers::AttentionTrace& trace) override {
    if (trace.layer == 0) tokens += trace.documents.tokens();
  }
  std::int64_t tokens = 0;
};

TEST_F(LikelihoodRun, a_shared_beginning_runs_once) {
  Opened opened = open("osdn", at::kFloat);
  Xoshiro256 random(5);
  const std::string context = test::words(random, 400);
  RequestBatch batch;
  for (int i = 0; i < 4; ++i) {
    batch.requests.push_back(
        {context, concat(" ", test::words(random, 1)), "", "", 0});
  }
  CountedTokens counted;
  opened.trained.model.observe(&counted);
  answers(opened.session(10000), batch);
  const std::int64_t together = counted.tokens;
  counted.tokens = 0;
  for (Request& request : batch.requests) request.document = -1;
  test::likelihoods_alone(opened.session(10000), batch);
  opened.trained.model.observe(nullptr);
  EXPECT_LT(together, counted.tokens / 3);
}

// Groups of 3 rows over a beginning of 128 tokens, 5 tokens each behind it.
struct Rows {
  RequestBatch batch;
  std::vector<TokenRow> rows;

  explicit Rows(int documents) {
    for (int i = 0; i < 3 * documents; ++i) {
      batch.requests.push_back({"", "", "", "", i / 3});
      TokenRow row;
      row.tokens.assign(128, i / 3);
      for (int t = 0; t < 6; ++t) row.tokens.push_back(1000 + i);
      row.first_scored = 129;
      rows.push_back(std::move(row));
    }
  }
};

TEST(LikelihoodPacks, respect_tokens_and_bytes) {
  const Rows rows(10);
  const auto groups = row_groups(rows.batch, rows.rows);
  ASSERT_EQ(groups.size(), 10U);
  EXPECT_EQ(groups[0].shared, 128);
  // 128 + 3 x 5 tokens a group.
  EXPECT_EQ(pack_groups(groups, rows.rows, {.tokens = 286}).size(), 5U);
  EXPECT_EQ(pack_groups(groups, rows.rows, {.tokens = 285}).size(), 10U);
  EXPECT_EQ(pack_groups(groups, rows.rows, {.tokens = 1}).size(), 10U);
  EXPECT_EQ(
      pack_groups(groups, rows.rows,
                  {.tokens = 9999, .state_bytes = 600, .bytes_per_state = 100})
          .size(),
      5U);
  EXPECT_EQ(
      pack_groups(groups, rows.rows,
                  {.tokens = 9999, .state_bytes = 768, .bytes_per_token = 1})
          .size(),
      5U);
}

TEST(LikelihoodPacks, what_is_scored_is_never_shared) {
  Rows rows(1);
  // Whole chunks of 64 tokens.
  for (TokenRow& row : rows.rows) row.first_scored = 127;
  EXPECT_EQ(row_groups(rows.batch, rows.rows)[0].shared, 64);
  rows.rows[1].first_scored = 64;
  EXPECT_EQ(row_groups(rows.batch, rows.rows)[0].shared, 64);
  rows.rows[1].first_scored = 63;
  EXPECT_EQ(row_groups(rows.batch, rows.rows)[0].shared, 0);
}

}  // namespace
}  // namespace osdn::eval
