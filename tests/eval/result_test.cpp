#include "osdn/eval/result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "osdn/core/error.h"

namespace osdn::eval {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

Result perplexity() {
  return {.task = "ppl",
          .metric = "word_perplexity",
          .value = 28.50034567,
          .n = 62,
          .protocol = "window",
          .model = "340m",
          .model_config_hash = "aa",
          .tokenizer = "t.model",
          .tokenizer_hash = "bb",
          .data = "test.raw",
          .data_hash = "cc",
          .requests_hash = "dd",
          .max_len = 2048,
          .truncated = 3,
          .dtype = "fp32",
          .batch_tokens = 4096,
          .seed = 1234};
}

TEST(Result, json_has_every_documented_field) {
  EvalReport report{"abc",
                    "2026-01-31T23:59:59Z",
                    "cpu",
                    "osdn-eval --task ppl",
                    {perplexity()}};
  report.results[0].detail = R"({"layers":[1,2]})";
  const json object = json::parse(to_json(report));
  EXPECT_EQ(object.at("format"), "osdn-eval/1");
  for (const char* key : {"version", "date", "device", "command"}) {
    EXPECT_TRUE(object.at(key).is_string()) << key;
  }
  const json& result = object.at("results").at(0);
  std::set<std::string> keys;
  for (const auto& [key, value] : result.items()) {
    keys.insert(key);
  }
  EXPECT_EQ(keys, (std::set<std::string>{
                      "task",         "metric",       "settings",
                      "value",        "stderr",       "n",
                      "protocol",     "model",        "model_config_hash",
                      "weights_hash", "tokenizer",    "tokenizer_hash",
                      "data",         "data_hash",    "requests_hash",
                      "bos",          "max_len",      "truncated",
                      "dropped",      "empty_cont",   "no_label",
                      "dtype",        "batch_tokens", "seed",
                      "limit",        "config_hash",  "detail"}));
  EXPECT_EQ(result.at("value"), 28.50034567);
  EXPECT_TRUE(result.at("stderr").is_null());
  EXPECT_TRUE(result.at("limit").is_null());
  EXPECT_EQ(result.at("max_len"), 2048);
  EXPECT_EQ(result.at("detail").at("layers").at(1), 2);
}

TEST(Result, what_is_absent_is_null) {
  Result result = perplexity();
  result.max_len.reset();
  result.protocol.clear();
  result.value = NAN;
  const json object = json::parse(to_json(EvalReport{.results = {result}}));
  const json& entry = object.at("results").at(0);
  EXPECT_TRUE(entry.at("max_len").is_null());
  EXPECT_TRUE(entry.at("protocol").is_null());
  EXPECT_TRUE(entry.at("value").is_null());
  EXPECT_FALSE(entry.contains("detail"));
}

TEST(Result, a_detail_that_is_not_json_is_an_error) {
  Result result = perplexity();
  result.detail = std::string("{");
  EXPECT_THROW(to_json(EvalReport{.results = {result}}), Error);
}

TEST(Result, config_hash_follows_what_can_change_the_value) {
  const std::string hash = config_hash(perplexity());
  EXPECT_EQ(hash.size(), 64U);
  const auto changed = [&hash](const auto& change) {
    Result result = perplexity();
    change(result);
    return config_hash(result) != hash;
  };
  EXPECT_TRUE(changed([](Result& r) { r.task = "x"; }));
  EXPECT_TRUE(changed([](Result& r) { r.metric = "x"; }));
  EXPECT_TRUE(changed([](Result& r) { r.protocol = "full"; }));
  EXPECT_TRUE(changed([](Result& r) { r.model = "x"; }));
  EXPECT_TRUE(changed([](Result& r) { r.model_config_hash = "x"; }));
  EXPECT_TRUE(changed([](Result& r) { r.tokenizer_hash = "x"; }));
  EXPECT_TRUE(changed([](Result& r) { r.data_hash = "x"; }));
  EXPECT_TRUE(changed([](Result& r) { r.requests_hash = "x"; }));
  EXPECT_TRUE(changed([](Result& r) { r.bos = true; }));
  EXPECT_TRUE(changed([](Result& r) { r.max_len = 4096; }));
  EXPECT_TRUE(changed([](Result& r) { r.max_len.reset(); }));
  EXPECT_TRUE(changed([](Result& r) { r.dtype = "bf16"; }));
  EXPECT_TRUE(changed([](Result& r) { r.batch_tokens = 1; }));
  EXPECT_TRUE(changed([](Result& r) { r.seed = 1; }));
  EXPECT_TRUE(changed([](Result& r) { r.limit = 10; }));
  EXPECT_TRUE(changed([](Result& r) { r.settings = R"({"side": "left"})"; }));
  EXPECT_FALSE(changed([](Result& r) { r.value = 1; }));
  EXPECT_FALSE(changed([](Result& r) { r.stderr_ = 1; }));
  EXPECT_FALSE(changed([](Result& r) { r.detail = "{}"; }));
  EXPECT_FALSE(changed([](Result& r) { r.data = "/elsewhere/test.raw"; }));
  EXPECT_TRUE(changed([](Result& r) { r.data_hash.clear(); }));
}

TEST(Result, config_hash_names_weights_by_content_where_it_is_known) {
  Result here = perplexity();
  here.weights_hash = std::string("aa");
  Result moved = here;
  moved.model = std::string("elsewhere");
  EXPECT_EQ(config_hash(moved), config_hash(here));
  moved.weights_hash = std::string("bb");
  EXPECT_NE(config_hash(moved), config_hash(here));
}

TEST(Result, canonical_hash_sorts_keys_and_has_no_spaces) {
  // SHA-256 of {"a":[1,2],"b":"x"}, from sha256sum.
  EXPECT_EQ(canonical_hash(json::parse(R"({ "b": "x",  "a": [1, 2] })")),
            "d0f56dda38d34376527524ddd98f7ec117d5cbfb240f86e11bfb9d2d01a717d9");
}

TEST(Result, table_of_one_model) {
  Result accuracy = perplexity();
  accuracy.task = "piqa";
  accuracy.metric = "acc";
  accuracy.protocol.clear();
  accuracy.value = 0.4956;
  accuracy.stderr_ = 0.0117;
  accuracy.n = 1838;
  accuracy.truncated = 0;
  EXPECT_EQ(results_table(std::vector<Result>{perplexity(), accuracy}),
            "model 340m, tokenizer t.model, dtype fp32, max_len 2048\n"
            "accuracies and shares as fractions of 1\n"
            "\n"
            "task  protocol  metric             value   stderr     n  "
            "truncated\n"
            "----  --------  ---------------  -------  -------  ----  "
            "---------\n"
            "ppl   window    word_perplexity  28.5003        -    62          "
            "3\n"
            "piqa  -         acc              0.49560  0.01170  1838          "
            "0\n");
}

TEST(Result, table_of_two_models_names_them_in_each_row) {
  Result other = perplexity();
  other.model = "twin";
  other.max_len.reset();
  const std::string table =
      results_table(std::vector<Result>{perplexity(), other});
  EXPECT_THAT(table, HasSubstr("model twin, tokenizer t.model, dtype fp32, "
                               "max_len none\n"));
  EXPECT_THAT(table, HasSubstr("\nmodel  task"));
  EXPECT_THAT(table, HasSubstr("\ntwin   ppl"));
}

TEST(Result, a_limited_run_is_marked) {
  Result limited = perplexity();
  limited.limit = 10;
  const std::string table =
      results_table(std::vector<Result>{perplexity(), limited});
  EXPECT_THAT(table, HasSubstr("\nppl    window"));
  EXPECT_THAT(table, HasSubstr("\nppl *  window"));
  EXPECT_THAT(table, HasSubstr("\n\n* --limit: only the first documents"));
  EXPECT_THAT(results_table(std::vector<Result>{perplexity()}),
              Not(HasSubstr("*")));
}

}  // namespace
}  // namespace osdn::eval
