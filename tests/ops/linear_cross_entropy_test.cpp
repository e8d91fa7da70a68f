// The chunked head and loss against log-softmax in float64.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ops/operator_cases.h"
#include "ops/run_operators.h"
#include "osdn/core/error.h"

namespace osdn::test {
namespace {

constexpr std::int64_t kNone = -100;

Results reference_head_loss(const HeadLossInput& in, double factor) {
  const auto h = static_cast<std::size_t>(in.width);
  const auto vocab = static_cast<std::size_t>(in.vocab);
  Values log_prob(in.labels.size(), 0.0), greedy(in.labels.size(), 0.0);
  Values grad_hidden(in.hidden.size(), 0.0), grad_weight(in.weight.size(), 0.0);
  double loss = 0;
  for (std::size_t t = 0; t < in.labels.size(); ++t) {
    Values logits(vocab, 0.0);
    for (std::size_t i = 0; i < vocab; ++i) {
      for (std::size_t c = 0; c < h; ++c) {
        logits[i] += in.hidden[t * h + c] * in.weight[i * h + c];
      }
    }
    const auto largest = std::max_element(logits.begin(), logits.end());
    if (in.labels[t] == kNone) continue;
    const auto label = static_cast<std::size_t>(in.labels[t]);
    greedy[t] = label == static_cast<std::size_t>(largest - logits.begin());
    double sum = 0;
    for (double x : logits) sum += std::exp(x - *largest);
    log_prob[t] = logits[label] - *largest - std::log(sum);
    loss -= log_prob[t];
    for (std::size_t i = 0; i < vocab; ++i) {
      const double slope =
          factor * (std::exp(logits[i] - *largest) / sum - (i == label));
      for (std::size_t c = 0; c < h; ++c) {
        grad_hidden[t * h + c] += slope * in.weight[i * h + c];
        grad_weight[i * h + c] += slope * in.hidden[t * h + c];
      }
    }
  }
  return {{"log_prob", log_prob},
          {"greedy", greedy},
          {"loss", {factor * loss}},
          {"grad_hidden", grad_hidden},
          {"grad_weight", grad_weight}};
}

HeadLossInput make_input(std::int64_t tokens, double spread = 1) {
  HeadLossInput in;
  in.width = 12;
  in.vocab = 37;
  in.hidden = normal_values(1, tokens * in.width, spread);
  in.weight = normal_values(2, in.vocab * in.width);
  Xoshiro256 random(3);
  for (std::int64_t t = 0; t < tokens; ++t) {
    in.labels.push_back(static_cast<std::int64_t>(
        random.below(static_cast<std::uint64_t>(in.vocab))));
  }
  return in;
}

void expect_reference(HeadLossInput in) {
  for (double factor : {1.0, 0.37, -2.0}) {
    const Results expected = reference_head_loss(in, factor);
    for (std::int64_t chunk : {0, 1, 2, 7, 20, 1000}) {
      in.chunk_tokens = chunk;
      SCOPED_TRACE(testing::Message()
                   << "factor " << factor << ", chunks of " << chunk);
      for (Layout layout : {Layout::kContiguous, Layout::kSliced}) {
        RunOptions options;
        options.layout = layout;
        EXPECT_EQ(
            differences(run_head_loss(in, factor, options), expected, 1e-13),
            "");
        options.precision = Precision::kFp32;
        EXPECT_EQ(
            differences(run_head_loss(in, factor, options), expected, 2e-6),
            "");
      }
    }
  }
}

TEST(LinearCrossEntropy, L6_chunks_and_upstream_factor_match_log_softmax) {
  expect_reference(make_input(20));
}

TEST(LinearCrossEntropy, L3_masked_labels_are_in_no_sum_and_no_gradient) {
  HeadLossInput in = make_input(20);
  for (std::size_t t : {0u, 3u, 4u, 5u, 19u}) in.labels[t] = kNone;
  expect_reference(in);
  in.labels.assign(20, kNone);
  expect_reference(in);
  const Results got = run_head_loss(in, 1);
  EXPECT_EQ(named(got, "loss"), Values{0.0});
  EXPECT_EQ(named(got, "grad_weight"), Values(in.weight.size(), 0.0));
}

TEST(LinearCrossEntropy, no_tokens_at_all) {
  expect_reference(make_input(0));
}

TEST(LinearCrossEntropy, confident_logits_do_not_overflow) {
  expect_reference(make_input(10, 100));
}

TEST(LinearCrossEntropy, repeated_runs_and_thread_counts_change_no_bit) {
  const HeadLossInput in = make_input(20);
  RunOptions options;
  options.precision = Precision::kFp32;
  options.threads = 1;
  const Results one = run_head_loss(in, 0.5, options);
  for (int threads : {1, 2, 2}) {
    options.threads = threads;
    EXPECT_EQ(bit_differences(run_head_loss(in, 0.5, options), one), "");
  }
}

TEST(LinearCrossEntropy, a_bad_label_is_named_with_its_position) {
  for (std::int64_t bad : {37, 1000000, -1, -99}) {
    HeadLossInput in = make_input(20);
    in.labels[7] = bad;
    try {
      run_head_loss(in, 1);
      ADD_FAILURE() << bad << " was accepted";
    } catch (const Error& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("label " + std::to_string(bad)), std::string::npos)
          << message;
      EXPECT_NE(message.find("position 7"), std::string::npos) << message;
      EXPECT_NE(message.find("37"), std::string::npos) << message;
    }
  }
}

TEST(LinearCrossEntropy, greedy_takes_the_first_of_equal_logits) {
  HeadLossInput in;
  in.width = 1;
  in.vocab = 300;
  in.weight.assign(300, -1.0);
  for (std::size_t i : {41u, 42u, 190u, 299u}) in.weight[i] = 2;
  in.hidden.assign(5, 1.0);
  in.labels = {41, 42, 299, 0, kNone};
  for (std::int64_t chunk : {0, 1, 3}) {
    in.chunk_tokens = chunk;
    EXPECT_EQ(named(run_head_loss(in, 1), "greedy"), (Values{1, 0, 0, 0, 0}));
  }
}

}  // namespace
}  // namespace osdn::test
