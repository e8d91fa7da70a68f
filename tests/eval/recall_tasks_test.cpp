// JRT, LongBench and the generated tasks end to end, with the dummy model,
// whose output is the prompt's first 200 code points.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "eval/recall_fixture.h"
#include "osdn/eval/task_table.h"
#include "osdn/synth/mqar.h"
#include "support/shared_data.h"

namespace osdn::eval {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST_F(RecallTasks, jrt_runs_once_and_twice_and_counts_what_it_drops) {
  put("jrt/fda.jsonl", {fda("Alpha: one\nBeta: two\nBeta:", "beta", "TWO"),
                        fda("Alpha: one\nBeta: x\n", "beta", "x"),
                        fda(std::string(300, 'a') + " c: three", "c", "four")});
  const Evaluation found = sound(dummy("jrt_fda"));
  ASSERT_EQ(found.results.size(), 2U);
  for (const char* protocol : {"jrt-once", "jrt-twice"}) {
    const Result& r = result(found, "contains", protocol);
    EXPECT_EQ(r.task, "jrt_fda");
    EXPECT_EQ(r.n, 1);
    EXPECT_EQ(r.dropped, 2);  // "c" is too short as well
    EXPECT_EQ(r.value, 1);
    EXPECT_FALSE(r.bos);
  }
  const std::vector<json> rows = samples(found);
  EXPECT_EQ(rows[0].at("output"), "Alpha: one\nBeta: two. Beta:");
  EXPECT_THAT(std::string(rows[0].at("place")),
              testing::EndsWith("fda.jsonl:1"));
  EXPECT_EQ(rows[1].at("output"),
            "Information about Beta. Alpha: one\nBeta: two.\nAlpha: one\n"
            "Beta: two. Beta:");
}

// 2690 of the harness: with the text as it is, numbers fall to a third.
TEST_F(RecallTasks, upstream_strips_and_its_first_version_does_not) {
  put("squad.jsonl", {{{"text", " A b c \n"},
                       {"value", " B \n"},
                       {"context", ""},
                       {"question", ""}}});
  EvalOptions o = dummy("jrt_squad");
  o.protocol = "upstream";
  Evaluation found = sound(o);
  EXPECT_EQ(samples(found)[0].at("output"), "A b c");
  EXPECT_EQ(samples(found)[0].at("label"), "B");
  EXPECT_EQ(found.results[0].value, 1);
  o.protocol = "upstream-v0";
  found = sound(o);
  EXPECT_EQ(samples(found)[0].at("output"), " A b c \n");
  EXPECT_EQ(found.results[0].value, 0);
}

TEST_F(RecallTasks, osdn_authors_prompts_begin_with_a_begin_token) {
  put("fda.jsonl", {fda("Alpha: one\nBeta: two\n", "beta", "two")});
  EvalOptions o = dummy("jrt_fda");
  o.protocol = "osdn-authors-twice";
  const Evaluation found = sound(o);
  EXPECT_TRUE(found.results[0].bos);
  EXPECT_THAT(found.results[0].settings, HasSubstr("\"truncation\":\"right\""));
  EXPECT_EQ(samples(found)[0].at("output"),
            "Information about Beta. Alpha: one\nBeta: two.\nAlpha: one\n"
            "Beta: two. Beta:");
}

json nq(const std::vector<std::string>& answers) {
  return {{"context", "Paris is the capital. It lies"},
          {"question", "It lies"},
          {"orig_question", "Where is it?"},
          {"answers", answers}};
}

TEST_F(RecallTasks, question_sets_search_all_answers) {
  put("drop.jsonl", {nq({"London", "paris"}), nq({})});
  const Evaluation found = sound(dummy("jrt_drop"));
  const Result& r = result(found, "contains", "jrt-once");
  EXPECT_EQ(r.value, 0.5);
  EXPECT_EQ(r.no_label, 1);
  EXPECT_EQ(samples(found)[0].at("label"), "London | paris");
}

TEST_F(RecallTasks, nq_takes_the_file_of_the_length) {
  put("nq_512.jsonl", {nq({"Paris"})});
  put("nq_2048.jsonl", {nq({"Paris"}), nq({"Paris"})});
  EvalOptions o = dummy("jrt_nq");
  o.context_length = 2048;
  EXPECT_EQ(sound(o).results[0].n, 2);
  EXPECT_THAT(sound(o).results[0].settings, HasSubstr("1950"));
  o.context_length = 512;
  EXPECT_EQ(sound(o).results[0].n, 1);
  o.context_length = 1024;
  EXPECT_THAT(failure(o), HasSubstr("nq_1024.jsonl"));
  o.context_length = 700;
  EXPECT_THAT(failure(o), HasSubstr("512, 1024 and 2048"));
}

TEST_F(RecallTasks, the_group_runs_the_sets_that_are_found) {
  put("jrt/fda.jsonl", {fda("Alpha: one", "alpha", "one")});
  put("jrt/swde.jsonl", {fda("Alpha: one", "alpha", "gone")});
  const Evaluation found = sound(dummy("jrt"));
  EXPECT_EQ(result(found, "average", "jrt-once").value, 0.5);
  EXPECT_EQ(result(found, "average", "jrt-once").n, 2);
}

TEST_F(RecallTasks, bad_rows_are_named) {
  put("fda.jsonl", {{{"text", "a"}, {"value", "bb"}}});
  EXPECT_THAT(failure(dummy("jrt_fda")), HasSubstr("fda.jsonl:1"));
  put("fda.jsonl", {fda("a", "kk", "bb")});
  EvalOptions o = dummy("jrt_fda");
  o.answer_length = 1000;
  EXPECT_THAT(failure(o), HasSubstr("--answer-length"));
  o = dummy("jrt_fda");
  o.tokenizer.reset();
  EXPECT_THAT(failure(o), HasSubstr("--tokenizer"));
}

TEST_F(RecallTasks, xquad_is_labelled_so) {
  OSDN_NEEDS_SHARED("data/jrt/xquad_qa.jsonl");
  EvalOptions o = dummy("jrt_squad");
  o.data.inputs = {test::shared_path("data")};
  o.tokenizer = test::shared_path("data/tokenizers/mistral-v0.1-32k.model");
  o.data.limit = 100;
  const Evaluation found = sound(o);
  const std::vector<json> rows = samples(found);
  for (const char* protocol : {"jrt-once", "jrt-twice"}) {
    const Result& r = result(found, "contains", protocol);
    EXPECT_EQ(r.task, "xquad");
    EXPECT_EQ(r.n + r.dropped, 100);
    EXPECT_DOUBLE_EQ(r.value, mean_found(rows, protocol));
  }
  // The first question of the first passage, read once: short enough to stay.
  EXPECT_THAT(std::string(rows[0].at("output")),
              testing::StartsWith("The Panthers defense gave up just 308"));
}

// ---- LongBench ----

class LongBench : public RecallTasks {
 protected:
  void put_forms(const std::string& subset, const std::string& form) const {
    std::ofstream(dir_ / "dataset2prompt.json") << json{{subset, form}};
    std::ofstream(dir_ / "longbench_dataset2maxlen.json") << json{{subset, 32}};
  }

  static json row(const std::string& context, const std::string& input,
                  const std::vector<std::string>& answers) {
    return {{"context", context},
            {"input", input},
            {"answers", answers},
            {"all_classes", nullptr},
            {"_id", "x"}};
  }
};

TEST_F(LongBench, fills_the_template_and_takes_the_best_answer) {
  put_forms("qasper", "Read {context} {x} and\\n say {input}: ");
  put("qasper.jsonl", {row("the {input} text", "a {context}", {"no", "text"}),
                       row("b", "c", {"zzz"})});
  const Evaluation found = sound(dummy("longbench_qasper"));
  const std::vector<json> rows = samples(found);
  EXPECT_EQ(rows[0].at("output"),
            "Read the {input} text {x} and\\n say a {context}: ");
  // 7 words without articles, one of them right.
  EXPECT_NEAR(rows[0].at("score"), 2 * (1.0 / 7) / (1.0 / 7 + 1), 1e-12);
  EXPECT_EQ(rows[1].at("score"), 0);
  const Result& r = result(found, "qa_f1", "middle");
  EXPECT_EQ(r.n, 2);
  EXPECT_TRUE(r.bos);
  EvalOptions left = dummy("longbench_qasper");
  left.protocol = "left";
  EXPECT_EQ(sound(left).results[0].protocol, "left");
}

TEST_F(LongBench, some_subsets_count_the_first_line) {
  put_forms("trec", "\n\n{context}\n{input}");
  json classes = row("City", "Date", {"Date"});
  classes["all_classes"] = {"City", "Date"};
  json first = row("Date", "City", {"Date"});
  first["all_classes"] = {"City", "Date"};
  put("trec.jsonl", {classes, first});
  const std::vector<json> rows = samples(sound(dummy("longbench_trec")));
  EXPECT_EQ(rows[0].at("score"), 0);
  EXPECT_EQ(rows[1].at("score"), 1);
}

TEST_F(LongBench, says_what_is_missing_or_left_out) {
  put("lcc.jsonl", {row("a", "b", {"c"})});
  EXPECT_THAT(failure(dummy("longbench_lcc")),
              HasSubstr("dataset2prompt.json"));
  put_forms("lcc", "{context}");
  put("lcc.jsonl", {row("a", "b", {})});
  EXPECT_THAT(failure(dummy("longbench_lcc")),
              HasSubstr("lcc.jsonl:1: \"answers\" is empty"));
  put_forms("trec", "{context}");
  json none = row("a", "b", {"c"});
  none["all_classes"] = json::array();
  put("trec.jsonl", {none});
  EXPECT_THAT(failure(dummy("longbench_trec")),
              HasSubstr("trec.jsonl:1: \"all_classes\" is empty"));
  std::ofstream(dir_ / "dataset2prompt.json")
      << R"({"lcc": "{context}", "x": 1, "lcc": "{input}"})";
  put("lcc.jsonl", {row("a", "b", {"c"})});
  EXPECT_THAT(failure(dummy("longbench_lcc")),
              HasSubstr("dataset2prompt.json: expected a JSON object with "
                        "\"lcc\", each of its keys once"));
  put_forms("passage_retrieval_en", "{context}");
  put("passage_retrieval_en.jsonl", {row("a", "b", {"7"})});
  EXPECT_THAT(failure(dummy("longbench_passage_retrieval_en")),
              HasSubstr("passage_retrieval_en.jsonl:1"));
  EXPECT_THAT(failure(dummy("longbench_dureader")), HasSubstr("Chinese"));
  for (const SelectedTask& task : select_tasks({"longbench"})) {
    EXPECT_EQ(task.definition->info.name.find("_zh"), std::string::npos);
  }
  EXPECT_EQ(select_tasks({"longbench"}).size(), 16U);
}

TEST_F(LongBench, published_templates_serve_all_subsets) {
  OSDN_NEEDS_SHARED("data/eval/longbench/longbench_dataset2prompt.json");
  for (const SelectedTask& task : select_tasks({"longbench"})) {
    const std::string name = task.definition->info.name.substr(10);
    json document = row("CONTEXT", "INPUT", {"Paragraph 1"});
    document["all_classes"] = {"Paragraph 1"};
    put("longbench/" + name + ".jsonl", {document});
    EvalOptions o = dummy("longbench_" + name);
    o.data.inputs.push_back(test::shared_path("data"));
    const Evaluation found = sound(o);
    ASSERT_EQ(found.results.size(), 1U) << name;
    EXPECT_EQ(found.results[0].n, 1);
  }
}

// ---- generated tasks ----

TEST_F(RecallTasks, needles_are_scored_by_value_and_depth) {
  EvalOptions o = dummy("niah_multikey_2");
  o.data.inputs.clear();
  o.generated.documents = 40;
  o.generated.target_tokens = {1000, 1500};
  const Evaluation found = sound(o);
  ASSERT_EQ(found.results.size(), 2U);
  for (const char* protocol : {"1000", "1500"}) {
    const Result& r = result(found, "recall", protocol);
    EXPECT_EQ(r.n, 40);
    EXPECT_EQ(r.seed, 1234U);
    EXPECT_DOUBLE_EQ(r.value, mean_found(samples(found), protocol));
    std::int64_t n = 0;
    double hits = 0;
    const json detail = json::parse(r.detail);
    for (const json& part : detail.at("by_depth")) {
      EXPECT_EQ(part.at("of"), 5);
      n += part.at("n").get<std::int64_t>();
      hits += part.at("n").get<double>() * part.at("recall").get<double>();
      // The beginning of the prompt is all that the dummy says.
      if (part.at("part") != 0) {
        EXPECT_EQ(part.at("recall"), 0);
      }
    }
    EXPECT_EQ(n, 40);
    EXPECT_NEAR(hits / 40, r.value, 1e-12);
  }
  o.generated.target_tokens = {100};
  EXPECT_THAT(failure(o), HasSubstr("use at least"));
}

TEST_F(RecallTasks, all_needle_tasks_run) {
  EvalOptions o = dummy("niah");
  o.data.inputs.clear();
  o.data.limit = 2;
  o.generated.target_tokens = {1200};
  const Evaluation found = sound(o);
  EXPECT_EQ(found.results.size(), 9U);  // and the average
}

TEST_F(RecallTasks, records_are_scored_by_depth_number_and_mistakes) {
  EvalOptions o = dummy("records");
  o.data.inputs.clear();
  o.tokenizer.reset();
  o.generated.documents = 60;
  o.generated.records = {16, 40};
  for (const char* mode : {"unique", "same", "update", "scoped"}) {
    o.generated.mode = mode;
    const Evaluation found = sound(o);
    ASSERT_EQ(found.results.size(), 8U);
    EXPECT_EQ(found.results[0].task, "records_16");
    EXPECT_EQ(found.results.back().task, "records_40");
    const std::vector<json> rows = samples(found);
    const Result& r = found.results[0];
    EXPECT_EQ(r.protocol, "once");
    const json detail = json::parse(r.detail);
    EXPECT_EQ(detail.at("by_records").at(0).at("records_from"), 16);
    std::int64_t n = 0;
    for (const json& part : detail.at("by_depth")) {
      n += part.at("n").get<std::int64_t>();
    }
    EXPECT_EQ(n, 60);
    // The first lines hold other records' values but where all later ones of
    // the same name are asked for.
    EXPECT_EQ(found.results[1].metric, "distractor");
    if (std::string(mode) != "update") {
      EXPECT_GT(found.results[1].value, 0.9);
    }
  }
}

TEST_F(RecallTasks, records_take_jrts_cuts) {
  EvalOptions o = dummy("records");
  o.data.inputs.clear();
  o.generated.documents = 5;
  o.generated.record_tokens = 1200;
  o.protocol = "jrt-twice";
  const Evaluation found = sound(o);
  EXPECT_THAT(found.results[0].settings, HasSubstr("\"cut_tokens\":950"));
  o.protocol.clear();
  o.generated.record_tokens = 20;
  EXPECT_THAT(failure(o), HasSubstr("do not fit"));
}

TEST_F(RecallTasks, generated_requests_are_the_same_in_every_call) {
  for (const char* task : {"records", "niah_single_2", "mqar"}) {
    EvalOptions o = dummy(task);
    o.data.inputs.clear();
    o.generated.documents = 3;
    o.generated.target_tokens = {1200};
    o.generated.mqar_sizes = {"32:3"};
    const std::string first = request_hashes(o).table;
    EXPECT_EQ(request_hashes(o).table, first);
    o.seed = 5;
    EXPECT_NE(request_hashes(o).table, first);
  }
}

TEST_F(RecallTasks, mqar_counts_values_that_are_the_most_probable_id) {
  EvalOptions o = dummy("mqar");
  o.data.inputs.clear();
  o.model = *shared_ / "osdn";
  o.dtype = "fp64";
  o.device = "cpu";
  o.tokenizer.reset();  // ids are no text
  o.generated.documents = 12;
  o.generated.mqar_vocab = 200;
  o.generated.mqar_sizes = {"16:4", "32:2"};
  const Evaluation found = sound(o);
  ASSERT_EQ(found.results.size(), 2U);
  const std::vector<json> rows = samples(found);
  ASSERT_EQ(rows.size(), 24U);
  synth::MqarOptions mqar;
  mqar.vocab_size = 200;
  mqar.length = 16;
  mqar.pairs = 4;
  double share = 0;
  for (std::uint64_t index = 0; index < 12; ++index) {
    const synth::MqarDocument d = synth::mqar_document(mqar, 1234, index);
    const auto scores = test::token_by_token(*shared_ / "osdn", d.tokens);
    int right = 0;
    for (std::size_t t = 0; t < d.labels.size(); ++t) {
      if (d.labels[t] < 0) continue;
      const auto best = std::max_element(scores[t].begin(), scores[t].end());
      right += best - scores[t].begin() == d.labels[t];
    }
    EXPECT_EQ(rows[index].at("output"), std::to_string(right));
    share += right / 4.0 / 12;
  }
  EXPECT_NEAR(result(found, "accuracy", "16:4").value, share, 1e-12);
  EXPECT_EQ(result(found, "accuracy", "16:4").n, 12);

  o.batch_tokens = 1;
  const Evaluation apart = sound(o);
  EXPECT_EQ(apart.results[0].value, found.results[0].value);
  o.generated.mqar_vocab = 8192;
  EXPECT_THAT(failure(o), HasSubstr("a vocabulary of 290"));
  o.generated.mqar_sizes = {"16"};
  EXPECT_THAT(failure(o), HasSubstr("length:pairs"));
}

TEST_F(RecallTasks, models_answer_generated_tasks) {
  EvalOptions o = dummy("records");
  o.tasks = {"records", "niah_single_1"};
  o.model = *shared_ / "osdn";
  o.data.inputs.clear();
  o.max_len = "none";
  o.dtype = "fp32";
  o.device = "cpu";
  o.generated.documents = 3;
  o.generated.record_tokens = 500;
  o.generated.target_tokens = {700};
  const Evaluation found = sound(o);
  EXPECT_EQ(found.results.size(), 5U);
  for (const json& row : samples(found)) {
    if (row.at("task") == "records") {
      EXPECT_EQ(std::string(row.at("output")).find('\n'), std::string::npos);
    }
    EXPECT_GT(row.at("tokens"), 0);
  }
}

}  // namespace
}  // namespace osdn::eval
