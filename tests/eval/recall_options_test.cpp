// Options of the tasks of recall: which a protocol takes, what a result is
// named by, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "eval/prepared_task.h"
#include "eval/recall_fixture.h"
#include "osdn/core/concat.h"
#include "osdn/core/hash.h"
#include "osdn/core/log.h"
#include "osdn/eval/compare.h"
#include "osdn/eval/csv_tables.h"
#include "osdn/eval/task_table.h"
#include "osdn/synth/mqar.h"
#include "support/message_of.h"

namespace osdn::eval {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class RecallOptions : public RecallTasks {
 protected:
  /// A task whose data is generated, small.
  EvalOptions generated(const std::string& task) const {
    EvalOptions o = dummy(task);
    o.data.inputs.clear();
    o.generated.documents = 3;
    o.generated.target_tokens = {1000};
    o.generated.mqar_sizes = {"32:3"};
    return o;
  }

  std::filesystem::path put_text(const std::string& name,
                                 const std::string& text) const {
    test::put_file(dir_ / name, text);
    return dir_ / name;
  }

  /// Two word lists of a folder, of which `last` is a word.
  std::filesystem::path put_words(const std::string& name,
                                  const std::string& last) const {
    std::string words;
    for (int i = 0; i < 600; ++i) {
      words += concat("w", static_cast<char>('a' + i % 26),
                      static_cast<char>('a' + i / 26), "x\n");
    }
    put_text(name + "/nounlist.txt", words + last + "\n");
    put_text(name + "/adjectivelist.txt", words);
    return dir_ / name;
  }

  static std::string usage_error(const EvalOptions& options) {
    return test::message_of([&] { evaluate(options); }, ExitCode::kUsage);
  }

  std::filesystem::path report(const std::string& name,
                               const EvalOptions& options) const {
    return put_text(name, to_json({"", "", "", "", sound(options).results}));
  }
};

// ---- protocols ----

// The cut to a prompt's own limit belongs to the protocol, whatever the task.
TEST_F(RecallOptions, the_authors_limit_holds_for_every_task_of_theirs) {
  put("fda.jsonl", {fda("Alpha: one\nBeta: two\n", "beta", "two")});
  for (const char* task : {"records", "jrt_fda"}) {
    for (const char* side : {"right", "left"}) {
      EvalOptions o = dummy(task);
      o.protocol = "osdn-authors-once";
      o.trunc_side = side;
      o.generated.documents = 1;
      const tokenizer::Tokenizer tokenizer(*o.tokenizer);
      const RequestBatch batch =
          test::prepared(task, o, &tokenizer).front().batch;
      EXPECT_EQ(batch.generation.prompt_tokens, 1064) << task;
      EXPECT_EQ(batch.generation.truncation, std::string(side) == "left"
                                                 ? Truncation::kLeft
                                                 : Truncation::kRight);
      EXPECT_TRUE(batch.bos);
    }
  }
}

TEST_F(RecallOptions, records_are_cut_to_the_authors_limit) {
  EvalOptions o = generated("records");
  o.model = *shared_ / "osdn";
  o.device = "cpu";
  o.dtype = "fp32";
  o.protocol = "osdn-authors-twice";
  o.context_length = 150;  // prompts of about 2 x 140 tokens, at most 214
  o.answer_length = 10;
  const Evaluation found = sound(o);
  EXPECT_EQ(found.results[0].truncated, 3);
  EXPECT_EQ(found.results[0].max_len, 214);
}

TEST_F(RecallOptions, a_protocol_that_no_task_has_names_those_there_are) {
  EvalOptions o = dummy("jrt");
  o.protocol = "bogus";
  EXPECT_THAT(
      usage_error(o),
      AllOf(HasSubstr("--protocol is 'bogus'"),
            HasSubstr("jrt-once, jrt-twice, upstream, upstream-v0, "
                      "osdn-authors-once, osdn-authors-twice for jrt_fda, "
                      "jrt_swde, jrt_squad"),
            HasSubstr("jrt-once, jrt-twice for jrt_nq, jrt_triviaqa, "
                      "jrt_drop")));
  o.tasks = {"records"};
  EXPECT_THAT(usage_error(o), HasSubstr("one of once, twice, jrt-once"));
  o.tasks = {"longbench_lcc"};
  EXPECT_THAT(usage_error(o), HasSubstr("middle, left for longbench_lcc"));
  o.tasks = {"piqa"};
  EXPECT_THAT(usage_error(o), HasSubstr("none of the tasks has protocols"));
  o.tasks = {"jrt_drop"};
  o.protocol = "upstream";
  EXPECT_THAT(usage_error(o), HasSubstr("jrt-once, jrt-twice for jrt_drop"));
  // Where one task has it, another one says so for itself.
  put("fda.jsonl", {fda("Alpha: one", "alpha", "one")});
  o.tasks = {"jrt"};
  sound(o);  // of the sets that are there
  put("drop.jsonl", {fda("Alpha: one", "alpha", "one")});
  EXPECT_THAT(failure(o), HasSubstr("jrt_drop expects one of jrt-once"));
}

// ---- rows ----

TEST_F(RecallOptions, a_blank_key_is_left_out_counted_and_named) {
  for (const char* key : {"", " ", "\n  "}) {
    put("fda.jsonl",
        {fda("Alpha: one", "alpha", "one"), fda("Alpha: one", key, "one")});
    for (const char* protocol :
         {"jrt-once", "jrt-twice", "osdn-authors-once", "osdn-authors-twice",
          "upstream", "upstream-v0"}) {
      SCOPED_TRACE(protocol);
      EvalOptions o = dummy("jrt_fda");
      o.protocol = protocol;
      std::string warnings;
      const log::Capture capture(
          [&](log::Level, std::string_view text) { warnings += text; });
      const Result r = sound(o).results[0];
      // Upstream does not ask with it.
      const bool asks = std::string(protocol).find("upstream") != 0;
      EXPECT_EQ(r.dropped, asks ? 1 : 0);
      EXPECT_EQ(r.n, asks ? 1 : 2);
      EXPECT_EQ(warnings.find("fda.jsonl:2") != std::string::npos, asks);
    }
  }
}

TEST_F(RecallOptions, a_task_without_a_row_to_ask_is_an_error) {
  put("fda.jsonl", {fda("Alpha: one", "a", "one")});
  for (const EvalOptions& o : {dummy("jrt_fda"), dummy("jrt")}) {
    EXPECT_THAT(failure(o), HasSubstr("fda.jsonl: no row is left to ask"));
    const RequestHashes hashes = request_hashes(o);
    ASSERT_EQ(hashes.failures.size(), 1U);
    EXPECT_EQ(hashes.failures[0].code, ExitCode::kBadInput);
    EXPECT_EQ(hashes.table, "");
  }
}

TEST_F(RecallOptions, a_group_of_which_nothing_is_found_is_an_error) {
  put("other.jsonl", {fda("a", "b", "c")});
  put("swde/fda.jsonl", {fda("a", "b", "c")});  // not where it is looked for
  const EvalOptions o = dummy("jrt");
  EXPECT_THAT(failure(o), HasSubstr("none of the group's sets is there"));
  const RequestHashes hashes = request_hashes(o);
  ASSERT_EQ(hashes.failures.size(), 1U);
  EXPECT_EQ(hashes.failures[0].task, "jrt");
  EXPECT_EQ(hashes.failures[0].code, ExitCode::kBadInput);
  EXPECT_EQ(hashes.table, "");
}

TEST_F(RecallOptions, a_size_is_asked_for_once) {
  EvalOptions o = generated("niah_single_1");
  o.generated.target_tokens = {1000, 1100, 1000};
  EXPECT_THAT(failure(o), HasSubstr("niah_single_1 1000 is asked for twice"));
  o = generated("records");
  o.generated.records = {16, 16};
  EXPECT_THAT(failure(o), HasSubstr("records_16 once is asked for twice"));
  o = generated("mqar");
  o.generated.mqar_sizes = {"32:3", "032:3"};
  EXPECT_THAT(failure(o), HasSubstr("mqar 32:3 is asked for twice"));
}

TEST_F(RecallOptions, a_limit_marks_what_it_cuts_and_nothing_else) {
  put("fda.jsonl",
      {fda("Alpha: one", "alpha", "one"), fda("Alpha: one", "alpha", "two"),
       fda("Alpha: one", "alpha", "two")});
  for (const char* task : {"jrt_fda", "niah_single_1", "records", "mqar"}) {
    SCOPED_TRACE(task);
    EvalOptions o = generated(task);
    o.data.inputs = {dir_.path()};
    const std::string whole = config_hash(sound(o).results[0]);
    for (const std::int64_t limit : {2, 3, 4, 1000}) {
      o.data.limit = limit;
      const Result r = sound(o).results[0];
      EXPECT_EQ(r.n, std::min<std::int64_t>(limit, 3));
      EXPECT_EQ(r.limit.has_value(), limit < 3);
      EXPECT_EQ(config_hash(r) == whole, limit >= 3);
    }
  }
}

// ---- what a result is named by ----

struct Change {
  const char* task;
  const char* name;
  std::function<void(EvalOptions&)> change;
};

TEST_F(RecallOptions, whatever_can_change_a_score_changes_its_hash) {
  put("fda.jsonl", {fda("Alpha: one\nBeta: two\n", "beta", "two"),
                    fda("Alpha: one\nBeta: two\n", "beta", "one")});
  const auto haystack = put_text("hay/h.txt", "Some text. And more of it.");
  const auto other = put_text("other/h.txt", "Some text. And less of it.");
  const auto words = put_words("a/words", "wolf");
  const auto more_words = put_words("b/words", "wolves");
  const std::vector<Change> changes = {
      // As many tokens of the cut, other ones of the prompt.
      {"jrt_fda", "lengths",
       [](EvalOptions& o) {
         o.context_length = 1100;
         o.answer_length = 150;
       }},
      {"jrt_fda", "answer", [](EvalOptions& o) { o.answer_length = 60; }},
      {"jrt_fda", "side", [](EvalOptions& o) { o.trunc_side = "left"; }},
      {"jrt_fda", "bos", [](EvalOptions& o) { o.bos = "0"; }},
      {"jrt_fda", "limit", [](EvalOptions& o) { o.data.limit = 1; }},
      {"records", "lengths",
       [](EvalOptions& o) {
         o.context_length = 1100;
         o.answer_length = 150;
       }},
      {"records", "side", [](EvalOptions& o) { o.trunc_side = "left"; }},
      {"records", "seed", [](EvalOptions& o) { o.seed = 3; }},
      {"records", "documents",
       [](EvalOptions& o) { o.generated.documents = 2; }},
      {"records", "mode", [](EvalOptions& o) { o.generated.mode = "scoped"; }},
      {"records", "tokens",
       [](EvalOptions& o) { o.generated.record_tokens = 800; }},
      {"records", "records",
       [](EvalOptions& o) { o.generated.records = {20}; }},
      {"records", "words", [=](EvalOptions& o) { o.generated.words = words; }},
      {"niah_single_2", "seed", [](EvalOptions& o) { o.seed = 3; }},
      {"niah_single_2", "target",
       [](EvalOptions& o) { o.generated.target_tokens = {1100}; }},
      {"niah_single_2", "hay",
       [=](EvalOptions& o) { o.generated.haystack = haystack; }},
      {"niah_single_2", "max_len", [](EvalOptions& o) { o.max_len = "900"; }},
      {"mqar", "seed", [](EvalOptions& o) { o.seed = 3; }},
      {"mqar", "passes", [](EvalOptions& o) { o.generated.mqar_passes = 2; }},
      {"mqar", "vocab", [](EvalOptions& o) { o.generated.mqar_vocab = 99; }},
      {"mqar", "size",
       [](EvalOptions& o) { o.generated.mqar_sizes = {"32:4"}; }}};
  const auto hash_of = [&](const Change& change, bool changed) {
    EvalOptions o = generated(change.task);
    if (std::string(change.task) == "jrt_fda") o.data.inputs = {dir_.path()};
    if (std::string(change.task) == "jrt_fda" ||
        std::string(change.task) == "records") {
      o.protocol = "osdn-authors-once";
    }
    if (changed) change.change(o);
    return config_hash(sound(o).results[0]);
  };
  for (const Change& change : changes) {
    EXPECT_NE(hash_of(change, true), hash_of(change, false))
        << change.task << " " << change.name;
  }
  // A file's content counts, and neither its name nor its place.
  const auto of_files = [&](const std::filesystem::path& hay,
                            const std::filesystem::path& lists) {
    EvalOptions o = generated("niah_single_2");
    o.generated.haystack = hay;
    o.generated.words = lists;
    return config_hash(sound(o).results[0]);
  };
  const auto moved = put_text("moved.txt", "Some text. And more of it.");
  EXPECT_EQ(of_files(haystack, words),
            of_files(moved, put_words("c/elsewhere", "wolf")));
  EXPECT_NE(of_files(haystack, words), of_files(other, words));
  EXPECT_NE(of_files(haystack, words), of_files(haystack, more_words));
}

TEST_F(RecallOptions, results_of_other_files_seeds_and_prompts_do_not_compare) {
  EvalOptions o = generated("niah_single_2");
  o.generated.haystack = put_text("hay/h.txt", "Some text. And more of it.");
  o.generated.words = put_words("a/words", "wolf");
  const auto a = report("a.json", o);
  const Result r = sound(o).results[0];
  EXPECT_EQ(r.data, "haystack: h.txt, words of words");
  EXPECT_EQ(r.data_hash,
            sha256(sha256_of_file(dir_ / "a/words/nounlist.txt") +
                   sha256_of_file(dir_ / "a/words/adjectivelist.txt") +
                   sha256_of_file(dir_ / "hay/h.txt")));
  const auto refused = [&](const EvalOptions& other) {
    const auto b = report("b.json", other);
    return test::message_of([&] { compare_results(a, b, false); },
                            ExitCode::kBadInput);
  };
  EvalOptions other = o;
  other.generated.haystack = put_text("b/h.txt", "Some text. And less of it.");
  EXPECT_THAT(refused(other), HasSubstr("data_hash is"));
  other = o;
  other.generated.words = put_words("b/words", "wolves");
  EXPECT_THAT(refused(other), HasSubstr("data_hash is"));
  other = o;
  other.seed = 3;
  EXPECT_THAT(refused(other), HasSubstr("seed is 1234 and 3"));
  other = o;
  other.generated.documents = 2;
  EXPECT_THAT(refused(other), HasSubstr("requests_hash is"));
  compare_results(a, report("b.json", o), false);
}

TEST_F(RecallOptions, an_average_is_named_by_what_it_covers) {
  put("fda.jsonl", {fda("Alpha: one", "alpha", "one")});
  put("swde.jsonl", {fda("Alpha: one", "alpha", "one")});
  EvalOptions o = dummy("jrt");
  o.protocol = "osdn-authors-once";
  const auto average = [&] {
    return result(sound(o), "average", "osdn-authors-once");
  };
  const Result right = average();
  o.trunc_side = "left";
  EXPECT_NE(config_hash(average()), config_hash(right));
  EXPECT_THAT(right.settings, AllOf(HasSubstr("jrt_fda"), HasSubstr("right")));
  put("swde.jsonl",
      {fda("Alpha: one", "alpha", "one"), fda("Alpha: one", "alpha", "one")});
  o.data.limit = 1;
  EXPECT_EQ(average().limit, 1);
  o.data.limit = 2;
  EXPECT_EQ(average().limit, std::nullopt);
}

TEST_F(RecallOptions, averages_of_lengths_stand_by_size) {
  EvalOptions o = generated("niah");
  o.generated.documents = 1;
  o.generated.target_tokens = {10100, 1200};  // as texts the other way round
  std::vector<std::string> protocols;
  for (const Result& r : sound(o).results) {
    if (r.metric == "average") protocols.push_back(r.protocol);
  }
  EXPECT_THAT(protocols, ElementsAre("1200", "10100"));
}

// ---- tables ----

TEST_F(RecallOptions, every_table_has_a_file_of_its_own) {
  EvalOptions o = generated("records");
  o.tasks = {"records", "niah"};
  o.generated.target_tokens = {1200, 1300};
  o.generated.records = {16, 20};
  const Evaluation found = sound(o);
  std::set<std::string> names;
  for (const CsvTable& table : csv_tables(found.results)) {
    EXPECT_TRUE(names.insert(table.name).second) << table.name;
  }
  for (const char* name :
       {"records_16_once_by_depth.csv", "records_20_twice_by_records.csv",
        "records_20_twice_overall.csv", "niah_single_1_1200_by_depth.csv",
        "niah_multiquery_1300_overall.csv"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  // 4 of records with 3 tables, 8 tasks of needles at 2 lengths with 2.
  EXPECT_EQ(names.size(), 4U * 3 + 8 * 2 * 2);
}

// ---- the dummy ----

TEST_F(RecallOptions, the_dummy_answers_mqar_label_by_label) {
  const EvalOptions o = generated("mqar");
  const Evaluation found = sound(o);
  synth::MqarOptions mqar;
  mqar.length = 32;
  mqar.pairs = 3;
  double share = 0;
  for (std::uint64_t index = 0; index < 3; ++index) {
    const synth::MqarDocument d = synth::mqar_document(mqar, 1234, index);
    std::string context;
    int right = 0;
    for (std::size_t t = 0; t < d.tokens.size(); ++t) {
      context += concat(t > 0 ? " " : "", d.tokens[t]);
      if (d.labels[t] < 0) continue;
      const std::string digest = sha256(concat(context, "\x1F", d.labels[t]));
      right += std::stoi(digest.substr(62), nullptr, 16) & 1;
    }
    EXPECT_EQ(samples(found)[index].at("output"), std::to_string(right));
    share += right / 9.0;
  }
  EXPECT_DOUBLE_EQ(result(found, "accuracy", "32:3").value, share);
}

// ---- options that nobody reads ----

TEST_F(RecallOptions, an_option_that_no_task_reads_is_refused) {
  const auto refused = [&](
                           const std::string& task, const std::string& option,
                           const std::function<void(EvalOptions&)>& change =
                               [](EvalOptions&) {}) {
    EvalOptions o = generated(task);
    o.given = {"--task", "--model", option};
    change(o);
    EXPECT_THAT(usage_error(o), HasSubstr(option + " has no effect on " + task))
        << task;
    EXPECT_THAT(test::message_of([&] { request_hashes(o); }, ExitCode::kUsage),
                HasSubstr(option));
  };
  refused("mqar", "--haystack");
  refused("mqar", "--max-len");
  refused("niah_single_1", "--haystack");
  refused("niah_single_2", "--mode");
  refused("records", "--repeat");
  refused("records", "--context-length");
  refused("records", "--record-tokens",
          [](EvalOptions& o) { o.generated.records = {16}; });
  refused("records", "--trunc-side",
          [](EvalOptions& o) { o.protocol = "jrt-once"; });
  refused("piqa", "--seed");
  EvalOptions o = generated("records");
  o.given = {"--repeat", "--mode", "--trunc-side", "--context-length"};
  o.generated.mode = "same";
  o.protocol = "osdn-authors-once";
  sound(o);
  // One of several tasks is enough.
  o = generated("records");
  o.tasks = {"records", "niah_single_2"};
  o.given = {"--haystack", "--mode"};
  sound(o);
}

}  // namespace
}  // namespace osdn::eval
