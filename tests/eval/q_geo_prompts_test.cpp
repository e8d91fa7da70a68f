// Which texts q_geo is measured on.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "osdn/core/log.h"
#include "osdn/eval/evaluation.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace osdn::eval {
namespace {

using nlohmann::json;

class QGeoPrompts : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<osdn::test::TempDir>();
    test::write_tokenizer(*dir_ / "t.model");
    test::save_checkpoint(*dir_ / "run", 1, test::osdn_apf_model());
    for (const char* set : {"fda", "swde", "squad"}) {
      std::string rows;
      for (int i = 0; i < 20; ++i) {
        rows += json{{"text", test::tiny_text(static_cast<std::uint64_t>(i),
                                              i == 0 ? 200 : 4)},
                     {"key", "abc"},
                     {"value", "cd"},
                     {"doc_id", "1"},
                     {"title", "t"},
                     {"context", "cd ab"},
                     {"question", "ab"}}
                    .dump() +
                "\n";
      }
      test::put_file(*dir_ / "sets/jrt" / (std::string(set) + ".jsonl"), rows);
      if (std::string(set) == "fda") {
        test::put_file(*dir_ / "one/fda.jsonl", rows);
      }
    }
    test::put_file(*dir_ / "texts/a.txt", test::tiny_text(3, 4));
  }
  static void TearDownTestSuite() { dir_.reset(); }

  static Result measured(const std::vector<std::string>& data,
                         std::optional<std::int64_t> limit = {}) {
    EvalOptions options;
    options.tasks = {"q_geo"};
    options.model = *dir_ / "run";
    options.tokenizer = *dir_ / "t.model";
    for (const std::string& name : data) {
      options.data.inputs.push_back(*dir_ / name);
    }
    options.data.limit = limit;
    options.dtype = "fp32";
    const Evaluation evaluation = evaluate(options);
    for (const TaskFailure& failure : evaluation.failures) {
      ADD_FAILURE() << failure.message;
    }
    return evaluation.results.at(0);
  }

  static std::unique_ptr<osdn::test::TempDir> dir_;
};
std::unique_ptr<osdn::test::TempDir> QGeoPrompts::dir_;

TEST_F(QGeoPrompts, the_three_sets_where_they_are_found) {
  const Result all = measured({"sets"});
  EXPECT_EQ(all.protocol, "prompts");
  EXPECT_EQ(all.data, "jrt_fda,jrt_swde,jrt_squad");
  EXPECT_EQ(all.seed, 13U);
  EXPECT_EQ(all.max_len, 1064);
  // 16 prompts of each set, none above 1,064 tokens, in 2 layers of 2 heads.
  EXPECT_LE(all.n, 3 * 16 * 1064 * 4);
  EXPECT_GT(all.n, 3 * 16 * 20 * 4);
  const json last = json::parse(all.detail).at("absolute").back();
  EXPECT_LE(last.at("position"), 1063);
}

TEST_F(QGeoPrompts, records_stand_in_for_sets_that_are_missing) {
  EXPECT_EQ(measured({"one"}).data, "jrt_fda,records");
  const Result none = measured({});
  EXPECT_EQ(none.data, "records");
  EXPECT_EQ(none.protocol, "prompts");
}

TEST_F(QGeoPrompts, any_other_data_are_texts) {
  EXPECT_EQ(measured({"texts"}).protocol, "window");
  EXPECT_EQ(measured({"texts/a.txt"}).data, "a.txt");
}

// Other tasks may need the file or the folder.
TEST_F(QGeoPrompts, sets_and_texts_side_by_side) {
  std::string warnings;
  const log::Capture capture(
      [&](log::Level, std::string_view text) { warnings += text; });
  using Pair = std::pair<const char*, const char*>;
  for (const auto& [first, second] :
       {Pair{"sets", "texts/a.txt"}, Pair{"texts/a.txt", "sets"},
        Pair{"texts", "sets"}}) {
    const Result r = measured({first, second});
    EXPECT_EQ(r.data, "jrt_fda,jrt_swde,jrt_squad");
    EXPECT_EQ(r.protocol, "prompts");
  }
  EXPECT_THAT(warnings, testing::HasSubstr("does not read "));
  // A folder without a set, with a text and without one.
  test::put_file(*dir_ / "empty/eval/piqa.jsonl", "{}");
  EXPECT_EQ(measured({"empty", "texts/a.txt"}).data, "a.txt");
  EXPECT_EQ(measured({"texts", "texts/a.txt"}).data, "a.txt");
  // A file by itself is a text, whatever its name.
  EXPECT_EQ(measured({"one/fda.jsonl"}).protocol, "window");
}

TEST_F(QGeoPrompts, a_limit_marks_what_it_cuts_and_nothing_else) {
  EXPECT_EQ(measured({"one"}, 31).limit, 31);
  EXPECT_EQ(measured({"one"}, 32).limit, std::nullopt);
  EXPECT_EQ(measured({"texts"}, 1).limit, std::nullopt);
}

}  // namespace
}  // namespace osdn::eval
