#include "osdn/synth/synthesize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "osdn/core/hash.h"
#include "small_tokenizer.h"
#include "support/message_of.h"

namespace osdn::synth {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

class Synthesize : public testing::Test {
 protected:
  SynthOptions options(const std::string& task) const {
    SynthOptions o;
    o.task = task;
    o.output = dir_ / "out.jsonl";
    o.documents = 12;
    o.target_tokens = 700;
    o.records.tokens = 500;
    o.tokenizer = small_tokenizer().path();
    o.threads = 1;
    o.overwrite = true;
    o.progress = false;
    return o;
  }

  std::string made(const SynthOptions& o) const {
    synthesize(o);
    std::ostringstream text;
    text << std::ifstream(o.output, std::ios::binary).rdbuf();
    return text.str();
  }

  test::TempDir dir_;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST_F(Synthesize,
       bytes_depend_on_neither_threads_nor_the_number_of_documents) {
  for (const std::string& task : synth_tasks()) {
    SynthOptions o = options(task);
    const std::string one = made(o);
    o.threads = 3;
    EXPECT_EQ(made(o), one) << task;
    o.documents = 5;
    const std::string fewer = made(o);
    EXPECT_EQ(one.substr(0, fewer.size()), fewer) << task;
    EXPECT_EQ(lines_of(fewer).size(), 5U);
    o.seed = 2;
    EXPECT_NE(made(o), fewer) << task;
  }
}

// Bytes that were made once: a change of the generator shows here, and so does
// a machine or library that gives others.
TEST_F(Synthesize, bytes_are_these) {
  SynthOptions o = options("mqar");
  EXPECT_EQ(sha256(made(o)),
            "2cc38e2b01f3cf33ed593a7a92048d8b4bbb9557a7ccfabb95d2ccfa7058f9b5");
  o = options("records");
  o.tokenizer.reset();
  o.records.records = 24;
  EXPECT_EQ(sha256(made(o)),
            "cdee432ca91b7d87400900a784b5a0636ee03b6a2ea088b7292cf86872a0b791");
}

TEST_F(Synthesize, mqar_lines_have_tokens_and_labels) {
  const std::string text = made(options("mqar"));
  for (const std::string& line : lines_of(text)) {
    const json row = json::parse(line);
    EXPECT_EQ(row.at("tokens").size(), 63U);
    EXPECT_EQ(row.at("labels").size(), 63U);
  }
}

TEST_F(Synthesize, needle_lines_can_be_trained_on_and_asked) {
  for (const std::string& line : lines_of(made(options("niah_multiquery")))) {
    const json row = json::parse(line);
    const std::string prompt = row.at("prompt");
    const std::string text = row.at("text");
    EXPECT_TRUE(text.starts_with(prompt + " "));
    for (const std::string value : row.at("answers")) {
      EXPECT_NE(prompt.find(value), std::string::npos);
      EXPECT_NE(text.find(value, prompt.size()), std::string::npos);
    }
    EXPECT_EQ(row.at("haystack"), "generated");
    EXPECT_EQ(row.at("depths").size(), 4U);
  }
}

TEST_F(Synthesize, record_lines_have_the_fields_of_the_recall_sets) {
  std::size_t index = 0;
  for (const std::string& line : lines_of(made(options("records")))) {
    const json row = json::parse(line);
    EXPECT_EQ(row.at("doc_id"), "records-" + std::to_string(index++));
    for (const char* field : {"text", "key", "value", "mode", "train_text"}) {
      EXPECT_TRUE(row.at(field).is_string()) << field;
    }
    for (const char* field :
         {"depth", "n_records", "pages", "n_tokens", "seed"}) {
      EXPECT_TRUE(row.at(field).is_number()) << field;
    }
    EXPECT_TRUE(row.at("distractors").is_array());
    EXPECT_LE(row.at("n_tokens"), 500);
  }
}

TEST_F(Synthesize, splits_share_no_words) {
  SynthOptions o = options("niah_single_1");
  const std::string train = made(o);
  o.split = "test";
  const std::string test = made(o);
  const auto words = [](const std::string& text) {
    std::set<std::string> out;
    for (const std::string& line : lines_of(text)) {
      const std::string key = json::parse(line).at("queries").at(0);
      out.insert(key.substr(0, key.find('-')));
      out.insert(key.substr(key.find('-') + 1));
    }
    return out;
  };
  for (const std::string& word : words(train)) {
    EXPECT_EQ(words(test).count(word), 0U) << word;
  }
}

TEST_F(Synthesize, refuses_what_it_cannot_make) {
  const auto message = [&](auto change) {
    SynthOptions o = options("records");
    change(o);
    return test::message_of([&] { synthesize(o); }, ExitCode::kUsage);
  };
  EXPECT_THAT(message([](auto& o) { o.task = "mqra"; }),
              HasSubstr("did you mean 'mqar'"));
  EXPECT_THAT(message([](auto& o) { o.documents = 0; }), HasSubstr("-n is 0"));
  EXPECT_THAT(message([](auto& o) { o.threads = -1; }), HasSubstr("--threads"));
  EXPECT_THAT(message([](auto& o) { o.split = "dev"; }), HasSubstr("train"));
  EXPECT_THAT(message([](auto& o) { o.tokenizer.reset(); }),
              HasSubstr("--tokenizer"));
  EXPECT_THAT(message([](auto& o) {
                o.task = "niah_single_1";
                o.tokenizer.reset();
              }),
              HasSubstr("--tokenizer"));
  for (const char* task :
       {"niah_single_1", "niah_single_2", "niah_multikey_3"}) {
    for (const std::int64_t tokens :
         {std::int64_t{-1}, std::int64_t{200},
          std::numeric_limits<std::int64_t>::max()}) {
      EXPECT_THAT(message([&](auto& o) {
                    o.task = task;
                    o.target_tokens = tokens;
                  }),
                  testing::AnyOf(HasSubstr("use at least"),
                                 HasSubstr("expected at most 16777216")));
    }
  }
  EXPECT_FALSE(fs::exists(dir_ / "out.jsonl"));
  std::ofstream(dir_ / "out.jsonl") << "mine";
  EXPECT_THAT(message([](auto& o) { o.overwrite = false; }),
              HasSubstr("--overwrite"));
  // A fault in the middle leaves what was there.
  EXPECT_THAT(message([](auto& o) { o.records.tokens = 60; }),
              HasSubstr("do not fit"));
  std::string kept;
  std::ifstream(dir_ / "out.jsonl") >> kept;
  EXPECT_EQ(kept, "mine");
}

TEST_F(Synthesize, an_option_without_effect_is_refused) {
  const auto refused = [&](const std::string& task, const std::string& option,
                           const auto& change) {
    SynthOptions o = options(task);
    o.given = {"--output", "--seed", option};
    change(o);
    EXPECT_THAT(test::message_of([&] { synthesize(o); }, ExitCode::kUsage),
                HasSubstr(option + " has no effect on " + task));
  };
  const auto as_it_is = [](SynthOptions&) {};
  for (const char* option : {"--words", "--split", "--tokenizer", "--haystack",
                             "--mode", "--target-tokens"}) {
    refused("mqar", option, as_it_is);
  }
  refused("niah_single_1", "--haystack", as_it_is);
  refused("niah_multikey_2", "--haystack", as_it_is);
  refused("niah_single_2", "--pairs", as_it_is);
  refused("records", "--target-tokens", as_it_is);
  refused("records", "--repeat", as_it_is);
  refused("records", "--tokens",
          [](SynthOptions& o) { o.records.records = 20; });
  SynthOptions o = options("records");
  o.given = {"--mode", "--repeat", "--tokens", "--tokenizer", "--words"};
  o.records.mode = RecordMode::kSame;
  made(o);
  o = options("niah_single_2");
  o.given = {"--haystack", "--target-tokens"};
  made(o);
}

TEST_F(Synthesize, the_output_is_never_an_input) {
  const auto text = [&](const std::string& name) {
    std::ostringstream all;
    all << std::ifstream(dir_ / name).rdbuf();
    return all.str();
  };
  fs::copy_file(small_tokenizer().path(), dir_ / "t.model");
  std::string words;
  for (char c = 'a'; c <= 'z'; ++c) {
    words += std::string("o") + c + "o\n" + std::string("u") + c + "u\n";
  }
  std::ofstream(dir_ / "nounlist.txt") << words;
  std::ofstream(dir_ / "adjectivelist.txt") << words;
  std::ofstream(dir_ / "novel.txt") << "A text.";
  for (const char* name :
       {"t.model", "nounlist.txt", "adjectivelist.txt", "novel.txt"}) {
    const std::string before = text(name);
    SynthOptions o = options("niah_single_2");
    o.tokenizer = dir_ / "t.model";
    o.words = dir_.path();
    o.haystack = dir_ / "novel.txt";
    o.output = dir_ / name;
    EXPECT_THAT(test::message_of([&] { synthesize(o); }, ExitCode::kUsage),
                HasSubstr("is an input of this call"));
    EXPECT_EQ(text(name), before);
  }
}

}  // namespace
}  // namespace osdn::synth
