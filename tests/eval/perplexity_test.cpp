#include "osdn/eval/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>

#include "osdn/core/error.h"

namespace osdn::eval {
namespace {

TEST(Perplexity, of_the_corpus_not_the_mean_over_documents) {
  const auto metrics = perplexities({{-6, 2, 10, 3}, {-2, 1, 6, 5}});  // L = -8
  ASSERT_EQ(metrics.size(), 4U);
  EXPECT_EQ(metrics[0].name, "word_perplexity");
  EXPECT_DOUBLE_EQ(metrics[0].value, std::exp(8.0 / 3));
  EXPECT_EQ(metrics[1].name, "byte_perplexity");
  EXPECT_DOUBLE_EQ(metrics[1].value, std::exp(0.5));
  EXPECT_EQ(metrics[2].name, "bits_per_byte");
  EXPECT_DOUBLE_EQ(metrics[2].value, 0.5 / std::log(2.0));
  EXPECT_EQ(metrics[3].name, "token_perplexity");
  EXPECT_DOUBLE_EQ(metrics[3].value, std::exp(1.0));
}

TEST(Perplexity, published_wikitext_numbers_agree_with_the_counts) {
  // A DeltaNet of 340M parameters: 28.5003, 1.87096, 0.903777 (eval.md 2).
  const double log_likelihood = -241335 * std::log(28.5003);
  const auto metrics =
      perplexities({{log_likelihood, 241335, 1290527, 328879}});
  EXPECT_NEAR(metrics[0].value, 28.5003, 1e-9);
  EXPECT_NEAR(metrics[1].value, 1.87096, 5e-6);
  EXPECT_NEAR(metrics[2].value, 0.903777, 5e-7);
  EXPECT_NEAR(std::log(metrics[0].value) / std::log(metrics[1].value),
              5.34745063915, 1e-10);
}

TEST(Perplexity, stderr_is_bootstrapped_over_documents) {
  EXPECT_FALSE(perplexities({{-6, 2, 10, 3}})[0].standard_error);
  // Documents of one size: bits per byte is a mean over them, whose deviation
  // is that of the documents over the root of their number.
  std::vector<ScoredDocument> documents;
  double sum = 0, squares = 0;
  for (int i = 0; i < 100; ++i) {
    const double nats = 1 + (i % 10) * 0.1;
    documents.push_back({-nats, 1, 1, 1});
    sum += nats / std::log(2.0);
    squares += std::pow(nats / std::log(2.0), 2);
  }
  const double expected =
      std::sqrt((squares / 100 - std::pow(sum / 100, 2)) / 100);
  const auto metrics = perplexities(documents);
  ASSERT_TRUE(metrics[2].standard_error);
  EXPECT_NEAR(*metrics[2].standard_error, expected, 0.1 * expected);
  EXPECT_EQ(*perplexities(documents)[2].standard_error,
            *metrics[2].standard_error);
}

TEST(Perplexity, nothing_to_score_is_an_error) {
  EXPECT_THROW(perplexities({}), Error);
  EXPECT_THROW(perplexities({{0, 1, 0, 0}}), Error);
}

}  // namespace
}  // namespace osdn::eval
