// Golden values of eval.md 11: requests of the published sets, and what two
// models without weights make of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "eval/prepared_task.h"
#include "osdn/eval/request_hash.h"
#include "support/shared_data.h"

namespace osdn::eval {
namespace {

using test::shared_path;

PreparedTask shared_task(const std::string& name) {
  EvalOptions options;
  options.data.inputs = {shared_path("data")};
  return std::move(test::prepared(name, options).front());
}

double value_of(const Scores& scores, const std::string& name) {
  for (const Metric& metric : scores.metrics) {
    if (metric.name == name) return metric.value;
  }
  ADD_FAILURE() << "no " << name;
  return 0;
}

struct Golden {
  const char* task;
  std::int64_t requests;
  const char* hash;
};

TEST(GoldenRequests, counts_and_hashes) {
  OSDN_NEEDS_SHARED("data/eval");
  for (const Golden& golden : std::vector<Golden>{
           {"lambada_openai", 5153,
            "521c496efd250b705653e489f1fee7a0aceacda8dd3384fae6999585aa9d3a97"},
           {"piqa", 3676,
            "d9b43f1473ab616557fa37d2bd9bd31e08020db41cc054c78640d4e48b2971b1"},
           {"arc_easy", 9501,
            "2db763e46f7d2750ba70be7a7eb2097f6daa751da278687a3bae6730193beaf9"},
           {"social_iqa", 5862,
            "581ce40a0627c29ebc4d5b2a56ef9c2eb4b2e93d0578c5f0b3301788b8ce94b0"},
           {"wikitext", 62,
            "a509fcdfffae003e6ae1e75ad9d8de6226e32c3089c73375c1e7f1db9cc2370"
            "e"}}) {
    SCOPED_TRACE(golden.task);
    RequestHash hash;
    for (const Request& request : shared_task(golden.task).batch.requests) {
      hash.add(request.context, request.continuation);
    }
    EXPECT_EQ(hash.count(), golden.requests);
    EXPECT_EQ(hash.hex(), golden.hash);
  }
}

// The other local sets, by the number of their documents.
TEST(GoldenRequests, documents_of_every_set) {
  OSDN_NEEDS_SHARED("data/eval");
  for (const auto& [name, documents] :
       std::vector<std::pair<const char*, std::int64_t>>{
           {"piqa", 1838},
           {"hellaswag", 2000},
           {"winogrande", 1267},
           {"arc_easy", 2376},
           {"arc_challenge", 1172},
           {"openbookqa", 500},
           {"boolq", 3270},
           {"social_iqa", 1954}}) {
    const PreparedTask task = shared_task(name);
    const Scores scores = task.score(test::dummy_answers(task));
    EXPECT_EQ(scores.metrics.front().n, documents) << name;
    EXPECT_EQ(task.no_label, 0) << name;
  }
}

TEST(GoldenRequests, scores_of_the_dummy) {
  OSDN_NEEDS_SHARED("data/eval");
  const PreparedTask piqa = shared_task("piqa");
  Scores scores = piqa.score(test::dummy_answers(piqa));
  EXPECT_DOUBLE_EQ(value_of(scores, "acc"), 911 / 1838.0);
  EXPECT_DOUBLE_EQ(value_of(scores, "acc_norm"), 903 / 1838.0);
  const PreparedTask arc = shared_task("arc_easy");
  scores = arc.score(test::dummy_answers(arc));
  EXPECT_DOUBLE_EQ(value_of(scores, "acc"), 586 / 2376.0);
  EXPECT_DOUBLE_EQ(value_of(scores, "acc_norm"), 599 / 2376.0);
}

// Log-likelihoods uniform in (-1, 0) give e^0.5 a word: right, and no fault.
TEST(GoldenRequests, perplexity_of_uniform_log_likelihoods) {
  OSDN_NEEDS_SHARED("data/eval");
  const PreparedTask lambada = shared_task("lambada_openai");
  const Scores scores = lambada.score(test::dummy_answers(lambada));
  for (const Metric& metric : scores.metrics) {
    const double expected = metric.name == "acc" ? 0.5 : std::exp(0.5);
    EXPECT_NEAR(metric.value, expected, 3 * metric.standard_error.value())
        << metric.name;
  }
}

/// MT19937 with array seeding, as Python's random module has it.
class PythonRandom {
 public:
  explicit PythonRandom(std::uint32_t key) {
    seed(19650218);
    std::uint32_t i = 1;
    for (int k = 0; k < kSize; ++k) {
      state_[i] = (state_[i] ^ (mixed(i) * 1664525U)) + key;
      next_index(i);
    }
    for (int k = 1; k < kSize; ++k) {
      state_[i] = (state_[i] ^ (mixed(i) * 1566083941U)) - i;
      next_index(i);
    }
    state_[0] = 0x80000000U;
  }
  std::uint32_t next() {
    if (at_ == kSize) twist();
    std::uint32_t y = state_[static_cast<std::size_t>(at_++)];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9D2C5680U;
    y ^= (y << 15) & 0xEFC60000U;
    return y ^ (y >> 18);
  }
  double uniform() {
    const double a = next() >> 5, b = next() >> 6;
    return (a * 67108864.0 + b) / 9007199254740992.0;
  }
  template <typename Values>
  void shuffle(Values& values) {
    for (std::size_t i = values.size() - 1; i > 0; --i) {
      const int bits = std::bit_width(i + 1);
      std::size_t j = next() >> (32 - bits);
      while (j > i) j = next() >> (32 - bits);
      std::swap(values[i], values[j]);
    }
  }

 private:
  static constexpr int kSize = 624;
  void seed(std::uint32_t value) {
    state_[0] = value;
    for (std::uint32_t i = 1; i < kSize; ++i) {
      state_[i] = 1812433253U * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
    }
  }
  std::uint32_t mixed(std::uint32_t i) const {
    return state_[i - 1] ^ (state_[i - 1] >> 30);
  }
  void next_index(std::uint32_t& i) {
    if (++i < kSize) return;
    state_[0] = state_[kSize - 1];
    i = 1;
  }
  void twist() {
    for (std::size_t i = 0; i < kSize; ++i) {
      const std::uint32_t y =
          (state_[i] & 0x80000000U) | (state_[(i + 1) % kSize] & 0x7FFFFFFFU);
      state_[i] = state_[(i + 397) % kSize] ^ (y >> 1) ^
                  ((y & 1) != 0 ? 0x9908B0DFU : 0U);
    }
    at_ = 0;
  }

  std::array<std::uint32_t, kSize> state_{};
  int at_ = kSize;
};

TEST(GoldenRequests, the_random_numbers_of_the_harness) {
  PythonRandom random(42);
  EXPECT_DOUBLE_EQ(random.uniform(), 0.6394267984578837);
  std::vector<int> order(10);
  std::iota(order.begin(), order.end(), 0);
  PythonRandom(42).shuffle(order);
  EXPECT_THAT(order, testing::ElementsAre(7, 3, 2, 8, 5, 6, 9, 4, 0, 1));
}

/// The harness's own dummy: documents are shuffled, then each request in that
/// order draws a log-likelihood.
std::vector<Answer> harness_answers(const PreparedTask& task) {
  std::vector<std::vector<std::size_t>> documents;
  for (std::size_t i = 0; i < task.batch.requests.size(); ++i) {
    const auto document =
        static_cast<std::size_t>(task.batch.requests[i].document);
    if (document == documents.size()) documents.emplace_back();
    documents[document].push_back(i);
  }
  PythonRandom(42).shuffle(documents);
  PythonRandom random(42);
  std::vector<Answer> answers(task.batch.requests.size());
  for (const auto& rows : documents) {
    for (const std::size_t row : rows) {
      answers[row].log_likelihood = -random.uniform();
    }
  }
  return answers;
}

TEST(GoldenRequests, scores_of_the_harness_dummy) {
  OSDN_NEEDS_SHARED("data/eval");
  const PreparedTask piqa = shared_task("piqa");
  Scores scores = piqa.score(harness_answers(piqa));
  EXPECT_DOUBLE_EQ(value_of(scores, "acc"), 945 / 1838.0);
  EXPECT_DOUBLE_EQ(value_of(scores, "acc_norm"), 940 / 1838.0);
  const PreparedTask arc = shared_task("arc_easy");
  scores = arc.score(harness_answers(arc));
  EXPECT_DOUBLE_EQ(value_of(scores, "acc"), 588 / 2376.0);
  EXPECT_DOUBLE_EQ(value_of(scores, "acc_norm"), 572 / 2376.0);
}

}  // namespace
}  // namespace osdn::eval
