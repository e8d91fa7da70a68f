// Whole evaluations of small checkpoints.

#include "osdn/eval/evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "osdn/core/hash.h"
#include "osdn/core/log.h"
#include "osdn/tokenizer/tokenizer.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace osdn::eval {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class Evaluate : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<osdn::test::TempDir>();
    test::write_tokenizer(*dir_ / "t.model");
    test::save_checkpoint(*dir_ / "osdn", 1, test::osdn_apf_model());
    test::save_checkpoint(*dir_ / "plain", 1, test::deltanet_model());
    test::save_checkpoint(*dir_ / "hybrid", 1, test::hybrid_model());
    test::save_checkpoint(*dir_ / "softmax", 1, test::transformer_model());
    test::put_file(*dir_ / "text.txt", test::tiny_text(2, 4));
    test::put_file(*dir_ / "wiki.raw", " = A = \n ab cd . \n = B = \n fg h \n");
  }
  static void TearDownTestSuite() { dir_.reset(); }

  /// "lines" of the text, fp64.
  static EvalOptions options(std::vector<std::string> tasks) {
    EvalOptions options;
    options.tasks = std::move(tasks);
    options.model = *dir_ / "osdn";
    options.tokenizer = *dir_ / "t.model";
    options.data.inputs = {*dir_ / "text.txt"};
    options.data.split = "lines";
    options.dtype = "fp64";
    return options;
  }
  static Result find(const Evaluation& evaluation, const std::string& metric) {
    for (const Result& result : evaluation.results) {
      if (result.metric == metric) return result;
    }
    ADD_FAILURE() << "no metric " << metric;
    return {};
  }
  static double value(const Evaluation& evaluation, const std::string& metric) {
    return find(evaluation, metric).value;
  }
  static std::string usage_error(const EvalOptions& options) {
    try {
      evaluate(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kUsage) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "no Error was thrown";
    return "";
  }
  /// Of the lines, a prefix token each.
  static std::int64_t input_tokens() {
    const tokenizer::Tokenizer tokenizer(*dir_ / "t.model");
    std::istringstream text(test::tiny_text(2, 4));
    std::int64_t tokens = 0;
    for (std::string line; std::getline(text, line);) {
      tokens += std::ssize(tokenizer.encode(line)) + 1;
    }
    return tokens;
  }
  /// Log-likelihood of each line from eval.md 2, token by token.
  static std::vector<double> expected_lines(std::optional<std::int64_t> max_len,
                                            bool bos,
                                            const std::string& model = "osdn") {
    const tokenizer::Tokenizer tokenizer(*dir_ / "t.model");
    const std::int32_t prefix = *tokenizer.bos_id();
    std::istringstream text(test::tiny_text(2, 4));
    std::vector<double> sums;
    for (std::string line; std::getline(text, line);) {
      std::vector<std::int32_t> t = tokenizer.encode(line);
      if (bos) t.insert(t.begin(), prefix);
      t.insert(t.begin(), prefix);  // so t[i + 1] is token i
      const std::int64_t count = std::ssize(t) - 1;
      const std::int64_t m = max_len.value_or(count);
      double sum = 0;
      for (std::int64_t begin = 0; begin < count; begin += m) {
        const std::int64_t end = std::min(begin + m, count);
        const std::int64_t first =
            begin == 0 ? 0 : std::max<std::int64_t>(end - m, 0);
        const auto rows = test::token_by_token(
            *dir_ / model, {t.begin() + first, t.begin() + end});
        for (std::int64_t i = begin; i < end; ++i) {
          sum += rows[static_cast<std::size_t>(i - first)]
                     [static_cast<std::size_t>(
                         t[static_cast<std::size_t>(i + 1)])];
        }
      }
      sums.push_back(sum);
    }
    return sums;
  }

  static std::unique_ptr<osdn::test::TempDir> dir_;
};
std::unique_ptr<osdn::test::TempDir> Evaluate::dir_;

TEST_F(Evaluate, perplexity_equals_the_definition_token_by_token) {
  for (const char* max_len : {"7", "", "none"}) {
    for (const char* bos : {"protocol", "1"}) {
      EvalOptions request = options({"ppl"});
      request.max_len = max_len;
      request.bos = bos;
      request.batch_tokens = 50;
      const Evaluation got = evaluate(request);
      const std::optional<std::int64_t> window =
          request.max_len == "none" ? std::nullopt
          : request.max_len.empty() ? std::optional<std::int64_t>(24)
                                    : std::optional<std::int64_t>(7);
      const auto expected = expected_lines(window, request.bos == "1");
      double total = 0;
      std::istringstream samples(got.samples);
      for (const double sum : expected) {
        std::string line;
        std::getline(samples, line);
        EXPECT_NEAR(json::parse(line).at("log_likelihood"), sum, 1e-9);
        total += sum;
      }
      const Result word = find(got, "word_perplexity");
      EXPECT_EQ(word.max_len, window);
      EXPECT_EQ(word.protocol, window ? "window" : "full");
      EXPECT_EQ(word.bos, request.bos == "1");
      EXPECT_EQ(word.n, 4);
      const json detail = json::parse(word.detail);
      EXPECT_EQ(detail.at("words"), 24);
      EXPECT_NEAR(word.value, std::exp(-total / 24), 1e-9 * word.value);
      EXPECT_NEAR(std::log(value(got, "token_perplexity")) *
                      detail.at("tokens").get<double>(),
                  -total, 1e-8);
    }
  }
}

TEST_F(Evaluate, rolling_full_carries_the_state_and_is_labelled) {
  EvalOptions request = options({"ppl"});
  request.rolling = "full";
  request.batch_tokens = 11;
  Result full;
  for (const char* model : {"softmax", "hybrid", "osdn"}) {
    SCOPED_TRACE(model);
    request.model = *dir_ / model;
    full = find(evaluate(request), "byte_perplexity");
    EXPECT_EQ(full.protocol, "full");
    EXPECT_FALSE(full.max_len);
    double total = 0;
    for (const double sum : expected_lines(std::nullopt, false, model)) {
      total += sum;
    }
    EXPECT_NEAR(std::log(full.value),
                -total / json::parse(full.detail).at("bytes").get<double>(),
                1e-10);
  }
  request.max_len = "none";
  EXPECT_EQ(value(evaluate(request), "byte_perplexity"), full.value);
  request.max_len = "8";
  EXPECT_THAT(usage_error(request), HasSubstr("--rolling full"));
}

TEST_F(Evaluate, every_field_of_a_result) {
  EvalOptions request = options({"ppl"});
  request.data.limit = 3;
  request.batch_tokens = 99;
  request.threads = 1;
  const Evaluation got = evaluate(request);
  EXPECT_EQ(got.device, "cpu, 1 threads");
  const Result r = find(got, "bits_per_byte");
  EXPECT_EQ(r.task, "ppl");
  EXPECT_TRUE(r.stderr_);
  EXPECT_EQ(r.n, 3);
  EXPECT_EQ(r.model, (*dir_ / "osdn/checkpoints/step_000000001").string());
  EXPECT_EQ(r.model_config_hash.size(), 64U);
  EXPECT_EQ(r.weights_hash,
            to_hex(xxh3_64_of_file(std::filesystem::path(r.model) /
                                   "model.safetensors")));
  EXPECT_EQ(r.tokenizer, "t.model");
  EXPECT_EQ(r.tokenizer_hash, sha256_of_file(*dir_ / "t.model"));
  EXPECT_EQ(r.data, "text.txt");
  EXPECT_EQ(r.data_hash, sha256_of_file(*dir_ / "text.txt"));
  std::string requests;
  std::istringstream text(test::tiny_text(2, 3));
  for (std::string line; std::getline(text, line);) {
    requests += "\x1F" + line + "\x1E";
  }
  EXPECT_EQ(r.requests_hash, sha256(requests));
  EXPECT_FALSE(r.bos);
  EXPECT_EQ(r.max_len, 24);
  EXPECT_EQ(r.truncated + r.dropped + r.empty_cont + r.no_label, 0);
  EXPECT_EQ(r.dtype, "fp64");
  EXPECT_EQ(r.batch_tokens, 99);
  EXPECT_EQ(r.seed, 1234U);
  EXPECT_EQ(r.limit, 3);
  EXPECT_EQ(config_hash(r),
            config_hash(find(evaluate(request), "bits_per_byte")));
  EXPECT_EQ(std::count(got.samples.begin(), got.samples.end(), '\n'), 3);
  EXPECT_THAT(got.samples, HasSubstr(R"("index":2,"prompt_hash":")"));
}

TEST_F(Evaluate, q_geo_pools_to_the_total) {
  EvalOptions request = options({"q_geo"});
  const Evaluation got = evaluate(request);
  const Result total = find(got, "q_geo");
  const json detail = json::parse(total.detail);
  // One number for each token (prefix included), head and layer.
  EXPECT_EQ(total.n, input_tokens() * 2 * 2);
  EXPECT_FALSE(total.stderr_);
  ASSERT_EQ(detail.at("layers").size(), 2U);
  ASSERT_EQ(detail.at("heads").size(), 4U);
  for (const char* key : {"q_geo", "q_geo_ones", "q_geo_mean", "q_geo_flip"}) {
    for (const char* table : {"relative", "absolute"}) {
      double logs = 0;
      std::int64_t count = 0;
      for (const json& row : detail.at(table)) {
        const auto n = row.at("n").get<std::int64_t>();
        logs += static_cast<double>(n) * std::log(row.at(key).get<double>());
        count += n;
      }
      EXPECT_EQ(count, total.n) << table;
      EXPECT_NEAR(logs / static_cast<double>(count), std::log(value(got, key)),
                  1e-12)
          << table << " " << key;
    }
    double layers = 0, heads = 0;
    for (const json& row : detail.at("layers")) {
      layers += std::log(row.at(key).get<double>()) / 2;
    }
    for (const json& row : detail.at("heads")) {
      heads += std::log(row.at(key).get<double>()) / 4;
    }
    EXPECT_NEAR(layers, std::log(value(got, key)), 1e-12) << key;
    EXPECT_NEAR(heads, std::log(value(got, key)), 1e-12) << key;
  }
  EXPECT_EQ(detail.at("heads")[2].at("layer"), 1);
  EXPECT_EQ(detail.at("heads")[2].at("head"), 0);
  EXPECT_EQ(detail.at("preconditioner").at("eta"), 0.5);
  EXPECT_NE(value(got, "q_geo"), value(got, "q_geo_ones"));
  // Jensen: a geometric mean is below the arithmetic one.
  EXPECT_LT(value(got, "q_geo"), value(got, "mean_q"));
  EXPECT_GT(value(got, "mean_beta"), 0);
  EXPECT_LT(value(got, "mean_beta"), 1);
  EXPECT_GT(value(got, "mean_d_k2"), 0.5);
  EXPECT_LT(value(got, "mean_d_k2"), 2);

  request.model = *dir_ / "plain";
  const Evaluation plain = evaluate(request);
  EXPECT_NEAR(value(plain, "mean_d_k2"), 1, 1e-2);
  EXPECT_FALSE(
      json::parse(find(plain, "q_geo").detail).contains("preconditioner"));
  for (const Result& result : plain.results) {
    EXPECT_NE(result.metric, "q_geo_ones");
  }
}

TEST_F(Evaluate, q_geo_needs_a_layer_with_the_delta_rule) {
  EvalOptions request = options({"q_geo", "ppl"});
  request.model = *dir_ / "hybrid";
  const Evaluation hybrid = evaluate(request);
  const json detail = json::parse(find(hybrid, "q_geo").detail);
  ASSERT_EQ(detail.at("layers").size(), 1U);
  EXPECT_EQ(detail.at("layers")[0].at("layer"), 0);
  EXPECT_EQ(find(hybrid, "q_geo").n, input_tokens() * 2);

  request.model = *dir_ / "softmax";
  const Evaluation softmax = evaluate(request);
  ASSERT_EQ(softmax.failures.size(), 1U);
  EXPECT_EQ(softmax.failures[0].task, "q_geo");
  EXPECT_THAT(softmax.failures[0].message, HasSubstr("softmax attention"));
  find(softmax, "byte_perplexity");
}

TEST_F(Evaluate, a_task_without_its_data_stops_only_itself) {
  EvalOptions request = options({"wikitext", "ppl", "q_geo"});
  request.data.inputs = {*dir_ / "text.txt", *dir_ / "text.txt"};
  Evaluation got = evaluate(request);
  ASSERT_EQ(got.failures.size(), 1U);
  EXPECT_EQ(got.failures[0].task, "wikitext");
  EXPECT_EQ(got.failures[0].code, ExitCode::kBadInput);
  EXPECT_THAT(got.failures[0].message,
              AllOf(HasSubstr("looked for eval/wikitext2_test.raw"),
                    HasSubstr("load_dataset")));
  EXPECT_EQ(find(got, "word_perplexity").task, "ppl");
  find(got, "q_geo");

  request.data.inputs = {};
  request.generated.documents = 20;
  got = evaluate(request);
  ASSERT_EQ(got.failures.size(), 2U);
  EXPECT_THAT(got.failures[1].message, HasSubstr("--data is missing"));
  // q_geo has texts of its own: generated records.
  EXPECT_EQ(find(got, "q_geo").data, "records");
  EXPECT_FALSE(find(got, "q_geo").bos);

  request = options({"wikitext", "q_geo"});
  request.data.inputs = {*dir_ / "wiki.raw"};
  got = evaluate(request);
  ASSERT_EQ(got.failures.size(), 1U);
  EXPECT_EQ(got.failures[0].task, "q_geo");
  const Result wikitext = find(got, "word_perplexity");
  EXPECT_EQ(wikitext.task, "wikitext");
  EXPECT_EQ(wikitext.n, 2);
  EXPECT_EQ(json::parse(wikitext.detail).at("words"), 8 + 7);
}

TEST_F(Evaluate, wrong_options_end_the_run_before_anything) {
  const auto changed = [](const auto& change) {
    EvalOptions request = options({"ppl"});
    change(request);
    return usage_error(request);
  };
  EXPECT_THAT(changed([](EvalOptions& o) { o.tasks = {}; }),
              HasSubstr("--task list"));
  EXPECT_THAT(changed([](EvalOptions& o) { o.tasks = {"wikitxt"}; }),
              HasSubstr("did you mean 'wikitext'?"));
  EXPECT_THAT(changed([](EvalOptions& o) {
                o.tasks = {"ppl", "ppl"};
              }),
              HasSubstr("twice"));
  EXPECT_THAT(changed([](EvalOptions& o) {
                o.device = "cpu";
                o.dtype = "bf16";
              }),
              AllOf(HasSubstr("needs a GPU"), HasSubstr("\"fp32\"")));
  EXPECT_THAT(changed([](EvalOptions& o) { o.dtype = "int8"; }),
              HasSubstr("--dtype is \"int8\""));
  EXPECT_THAT(changed([](EvalOptions& o) { o.device = "tpu"; }),
              HasSubstr("--device is \"tpu\""));
  EXPECT_THAT(changed([](EvalOptions& o) { o.bos = "yes"; }),
              HasSubstr("protocol, 0, 1"));
  EXPECT_THAT(changed([](EvalOptions& o) { o.rolling = "strided"; }),
              HasSubstr("window, full"));
  for (const char* max_len : {"0", "-1", "12x", "many", " 3"}) {
    EXPECT_THAT(changed([&](EvalOptions& o) { o.max_len = max_len; }),
                HasSubstr("--max-len is '"));
  }
  EXPECT_THAT(changed([](EvalOptions& o) { o.batch_tokens = 0; }),
              HasSubstr("--batch-tokens"));
  EXPECT_THAT(changed([](EvalOptions& o) { o.threads = 1000000; }),
              HasSubstr("1 to 4096"));
  EXPECT_THAT(changed([](EvalOptions& o) { o.threads = -1; }),
              HasSubstr("--threads"));
  EXPECT_THAT(changed([](EvalOptions& o) { o.data.limit = 0; }),
              HasSubstr("--limit"));
  EXPECT_THAT(changed([](EvalOptions& o) { o.tokenizer.reset(); }),
              HasSubstr("--tokenizer"));
}

TEST_F(Evaluate, a_tokenizer_that_does_not_fit_is_refused_or_named) {
  test::write_tokenizer(*dir_ / "large.model", test::kVocab + 1);
  EvalOptions request = options({"ppl"});
  request.tokenizer = *dir_ / "large.model";
  try {
    evaluate(request);
    ADD_FAILURE() << "no Error was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("large.model"), HasSubstr("291"),
                                    HasSubstr("290")));
  }
  test::write_tokenizer(*dir_ / "small.model", test::kVocab - 1);
  request.tokenizer = *dir_ / "small.model";
  std::string warnings;
  const log::Capture capture(
      [&](log::Level, std::string_view text) { warnings += text; });
  evaluate(request);
  EXPECT_THAT(warnings, AllOf(HasSubstr("small.model"), HasSubstr("289")));
}

TEST_F(Evaluate, the_runs_own_tokenizer_is_used) {
  test::save_checkpoint(*dir_ / "named", 1, test::osdn_apf_model(), 7,
                        (*dir_ / "t.model").string());
  EvalOptions request = options({"ppl"});
  request.model = *dir_ / "named";
  request.tokenizer.reset();
  EXPECT_EQ(value(evaluate(request), "byte_perplexity"),
            value(evaluate(options({"ppl"})), "byte_perplexity"));
}

}  // namespace
}  // namespace osdn::eval
