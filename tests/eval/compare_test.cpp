#include "osdn/eval/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/eval/result.h"
#include "support/temp_dir.h"

namespace osdn::eval {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Compare : public testing::Test {
 protected:
  static Result row(const std::string& metric, double value,
                    std::optional<double> standard_error) {
    Result r;
    r.task = "ppl";
    r.metric = metric;
    r.value = value;
    r.stderr_ = standard_error;
    r.protocol = "window";
    r.model = "runs/base/checkpoints/step_000000010";
    r.tokenizer_hash = "t";
    r.data_hash = "d";
    r.max_len = 16;
    return r;
  }
  std::filesystem::path write(const std::string& name,
                              std::vector<Result> results) {
    write_file_atomic(dir_ / name,
                      to_json({"", "", "", "", std::move(results)}));
    return dir_ / name;
  }
  std::filesystem::path write_text(const std::string& text) {
    write_file_atomic(dir_ / "bad.json", text);
    return dir_ / "bad.json";
  }
  static std::string error_of(const std::filesystem::path& a,
                              const std::filesystem::path& b) {
    try {
      compare_results(a, b, false);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      return error.what();
    }
    ADD_FAILURE() << "no Error was thrown";
    return "";
  }

  osdn::test::TempDir dir_;
};

TEST_F(Compare, differences_in_units_of_the_combined_stderr) {
  const auto a = write("a.json", {row("token_perplexity", 10, 3.0),
                                  row("mean_beta", 0.5, std::nullopt)});
  const auto b = write("b.json", {row("mean_beta", 0.25, 0.1),
                                  row("token_perplexity", 12, 4.0)});
  const std::string model = " (runs/base/checkpoints/step_000000010)\n";
  EXPECT_EQ(
      compare_results(a, b, false),
      concat(
          "A: ", a.string(), model, "B: ", b.string(), model, "\n",
          "task  protocol  metric                  A        B     B - A  (B - "
          "A) / stderr\n"
          "----  --------  ----------------  -------  -------  --------  "
          "----------------\n"
          "ppl   window    token_perplexity  10.0000  12.0000    2.0000     "
          "         0.40\n"
          "ppl   window    mean_beta         0.50000  0.25000  -0.25000     "
          "       "
          "     -\n"));
}

TEST_F(Compare, columns_are_named_for_runs_and_show_what_one_alone_has) {
  Result twin = row("q_geo", 0.25, std::nullopt);
  twin.model = "runs/twin/checkpoints/step_000000010";
  Result ones = twin;
  ones.metric = "q_geo_ones";
  const std::string text =
      compare_results(write("a.json", {row("q_geo", 0.5, std::nullopt)}),
                      write("b.json", {twin, ones}), false);
  EXPECT_THAT(
      text,
      HasSubstr(
          "\ntask  protocol  metric      A: base  B: twin     B - A  (B"));
  EXPECT_THAT(
      text, HasSubstr("\nppl   window    q_geo       0.50000  0.25000  -0.25000"
                      "                 -\n"));
  EXPECT_THAT(
      text, HasSubstr("\nppl   window    q_geo_ones        -  0.25000         -"
                      "                 -\n"));
}

TEST_F(Compare, refuses_rows_that_are_not_comparable_unless_forced) {
  const auto a = write("a.json", {row("q", 1, std::nullopt)});
  const auto refused = [&](const char* key,
                           const std::function<void(Result&)>& change) {
    Result other = row("q", 2, std::nullopt);
    change(other);
    const auto b = write("b.json", {other});
    EXPECT_THAT(error_of(a, b), AllOf(HasSubstr(concat("task ppl: ", key)),
                                      HasSubstr("--force")));
    EXPECT_THAT(compare_results(a, b, true), HasSubstr("1.00000"));
  };
  refused("protocol", [](Result& r) { r.protocol = std::string("full"); });
  refused("tokenizer_hash",
          [](Result& r) { r.tokenizer_hash = std::string("u"); });
  refused("bos", [](Result& r) { r.bos = true; });
  refused("max_len", [](Result& r) { r.max_len.reset(); });
  refused("data_hash", [](Result& r) { r.data_hash = std::string("e"); });
  refused("limit", [](Result& r) { r.limit = 3; });
  refused("seed", [](Result& r) { r.seed = 3; });
  refused("requests_hash",
          [](Result& r) { r.requests_hash = std::string("q"); });
  refused("settings", [](Result& r) { r.settings = R"({"cut": "left"})"; });
  Result batch = row("q", 2, std::nullopt);
  batch.batch_tokens = 5;
  EXPECT_THAT(compare_results(a, write("b.json", {batch}), false),
              Not(HasSubstr("error")));
}

TEST_F(Compare, rows_of_several_protocols_meet_their_like) {
  const auto with = [](const char* protocol, double value) {
    Result r = row("q", value, 0.5);
    r.protocol = protocol;
    return r;
  };
  const auto a = write("a.json", {with("once", 1), with("twice", 2)});
  const auto b = write("b.json", {with("twice", 4), with("once", 8)});
  EXPECT_THAT(compare_results(a, b, false),
              AllOf(HasSubstr("\nppl   once      q       1.00000  8.00000  "
                              "7.00000            9.90 *\n"),
                    HasSubstr("\nppl   twice     q       2.00000  4.00000  "
                              "2.00000            2.83 *\n"),
                    HasSubstr("\n* beyond 1.96 standard errors")));
  const auto third = write("c.json", {with("once", 1.5), with("third", 4)});
  EXPECT_THAT(compare_results(a, third, false),
              AllOf(HasSubstr("\nppl   twice     q       2.00000        -"),
                    HasSubstr("\nppl   third     q             -  4.00000")));
}

TEST_F(Compare, a_value_that_is_not_finite_is_shown_as_absent) {
  const auto a = write("a.json", {row("q", NAN, 1.0)});
  const auto b = write("b.json", {row("q", 1, 1.0)});
  EXPECT_THAT(compare_results(a, b, false),
              HasSubstr("\nppl   window    q       -  1.00000      -"));
}

TEST_F(Compare, malformed_files_are_named) {
  const auto good = write("a.json", {row("q", 1, std::nullopt)});
  for (const char* text :
       {"", "{", "[]", "3", "{}", R"({"format": 1, "results": []})",
        R"({"format": "osdn-eval/2", "results": []})"}) {
    EXPECT_THAT(error_of(good, write_text(text)),
                AllOf(HasSubstr("bad.json"), HasSubstr("--out")))
        << text;
  }
  EXPECT_THAT(error_of(write_text(R"({"format": "osdn-eval/1"})"), good),
              HasSubstr("\"results\""));
  json report = json::parse(read_file(good));
  report["results"].push_back(3);
  EXPECT_THAT(error_of(good, write_text(report.dump())),
              AllOf(HasSubstr("bad.json"), HasSubstr("/results/1")));
  for (const char* key : {"task", "value", "stderr", "max_len", "data_hash"}) {
    json broken = json::parse(read_file(good));
    broken["results"][0].erase(key);
    EXPECT_THAT(error_of(good, write_text(broken.dump())), HasSubstr(key));
  }
  json broken = json::parse(read_file(good));
  broken["results"][0]["value"] = "1";
  EXPECT_THAT(error_of(good, write_text(broken.dump())),
              HasSubstr("/results/0"));
  EXPECT_THAT(error_of(good, dir_ / "missing.json"), HasSubstr("missing.json"));
}

TEST_F(Compare, files_without_a_common_metric) {
  EXPECT_THAT(error_of(write("a.json", {row("q", 1, std::nullopt)}),
                       write("b.json", {row("r", 1, std::nullopt)})),
              HasSubstr("in common"));
  EXPECT_THAT(error_of(write("a.json", {}), write("b.json", {})),
              HasSubstr("in common"));
}

}  // namespace
}  // namespace osdn::eval
