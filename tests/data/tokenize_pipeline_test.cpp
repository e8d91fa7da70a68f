#include "osdn/data/tokenize_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "data_fixture.h"
#include "osdn/core/file.h"
#include "osdn/core/log.h"
#include "osdn/core/random.h"
#include "osdn/data/inspect.h"
#include "osdn/data/train_tokenizer.h"
#include "osdn/tokenizer/tokenizer.h"

namespace osdn::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string made_up_text(Xoshiro256& random, std::uint64_t words) {
  constexpr std::string_view kWords[] = {"the", "river",  "runs", "under",
                                         "a",   "bridge", "of",   "stone",
                                         "and", "willow", "Ü"};
  std::string text;
  for (std::uint64_t w = 0; w < words; ++w) {
    text += kWords[random.below(std::size(kWords))];
    text += random.below(12) == 0 ? "\n" : " ";
  }
  return text;
}

// A corpus of two files and a tokenizer trained on it, made once.
class TokenizePipeline : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new test::TempDir;
    Xoshiro256 random(1);
    std::string lines;
    for (int d = 0; d < 1500; ++d) {
      std::string text = made_up_text(random, 1 + random.below(120));
      if (d % 100 == 50) {
        text.clear();
      }
      documents_.push_back(text);
      std::string escaped;
      for (const char c : text) {
        escaped += c == '\n' ? std::string("\\n") : std::string(1, c);
      }
      lines += concat("{\"text\": \"", escaped, "\"}\n");
    }
    put_file(*dir_ / "a.jsonl", lines);
    std::string paragraphs;
    for (int d = 0; d < 50; ++d) {
      documents_.push_back("plain " + std::to_string(d));
      paragraphs += documents_.back() + "\n\n";
    }
    put_file(*dir_ / "b.txt", paragraphs);
    TrainTokenizerOptions options;
    options.inputs = {*dir_ / "a.jsonl"};
    options.output = *dir_ / "t.model";
    options.train.vocab_size = 290;
    options.progress = false;
    train_tokenizer(options);
  }
  static void TearDownTestSuite() {
    delete dir_;
    dir_ = nullptr;
    documents_.clear();
  }

  TokenizeOptions options() {
    TokenizeOptions options;
    options.inputs = {*dir_ / "a.jsonl", *dir_ / "b.txt"};
    set_split(options.text, "blank-lines");
    options.output = out_ / "shards";
    options.tokenizer = *dir_ / "t.model";
    options.progress = false;
    return options;
  }
  TokenizeResult tokenize_quietly(const TokenizeOptions& options) {
    const log::Capture capture([](log::Level, std::string_view) {});
    return tokenize(options);
  }
  static tokenizer::Tokenizer tokenizer() {
    return tokenizer::Tokenizer(*dir_ / "t.model");
  }
  std::string all_bytes(const fs::path& folder) {
    std::string bytes;
    for (const fs::path& file : shard_files({folder})) {
      bytes += file.filename().string() + ":" + read_file(file);
    }
    return bytes;
  }

  static inline test::TempDir* dir_ = nullptr;
  static inline std::vector<std::string> documents_;
  test::TempDir out_;
};

TEST_F(TokenizePipeline, documents_keep_order_text_and_boundaries) {
  const TokenizeResult result = tokenize_quietly(options());
  const TokenDataset dataset({out_ / "shards"});
  const tokenizer::Tokenizer model = tokenizer();
  EXPECT_EQ(result.empty_documents, 15U);
  EXPECT_EQ(result.documents, 1535U);
  EXPECT_EQ(result.tokens, dataset.token_count());
  EXPECT_EQ(dataset.document_count(), 1535U);
  EXPECT_EQ(dataset.shards()[0].header().tokenizer_hash, model.hash());
  EXPECT_EQ(dataset.shards()[0].header().vocab_size, 290U);
  std::uint64_t d = 0;
  std::uint64_t bytes = 0;
  for (const std::string& text : documents_) {
    if (text.empty()) {
      continue;
    }
    bytes += text.size();
    Ids ids(dataset.document_length(d));
    dataset.read(d, 0, ids);
    ASSERT_EQ(ids.front(), 1) << "BOS by default";
    ASSERT_EQ(model.decode(ids), text);
    ++d;
  }
  EXPECT_EQ(result.text_bytes, bytes);
  std::vector<std::string> lines;
  verify({out_ / "shards"}, {.tokenizer_hash = model.hash()},
         [&](const std::string& line) { lines.push_back(line); });
  EXPECT_THAT(lines, ElementsAre(HasSubstr("sound")));
}

TEST_F(TokenizePipeline, output_has_the_same_bytes_for_any_thread_count) {
  TokenizeOptions some = options();
  some.shard_tokens = 12000;
  some.threads = 1;
  tokenize_quietly(some);
  const std::string expected = all_bytes(some.output);
  for (const std::int64_t threads : {2, 5, 16, 0}) {
    some.output = out_ / concat("with", threads);
    some.threads = threads;
    EXPECT_GT(tokenize_quietly(some).shards, 3U);
    EXPECT_EQ(all_bytes(some.output), expected);
  }
}

TEST_F(TokenizePipeline, shards_end_at_documents_and_below_the_limit) {
  TokenizeOptions one = options();
  tokenize_quietly(one);
  TokenizeOptions many = options();
  many.output = out_ / "many";
  many.shard_tokens = 3000;
  const TokenizeResult result = tokenize_quietly(many);
  const TokenDataset whole({one.output});
  const TokenDataset parts({many.output});
  EXPECT_EQ(parts.shards().size(), result.shards);
  ASSERT_EQ(parts.document_count(), whole.document_count());
  for (std::uint64_t d = 0; d < whole.document_count(); ++d) {
    ASSERT_EQ(parts.document_length(d), whole.document_length(d));
    Ids a(whole.document_length(d));
    Ids b(a.size());
    whole.read(d, 0, a);
    parts.read(d, 0, b);
    ASSERT_EQ(a, b);
  }
  for (const TokenShard& shard : parts.shards()) {
    EXPECT_TRUE(shard.token_count() <= 3000 || shard.document_count() == 1);
    shard.verify();
  }
}

TEST_F(TokenizePipeline, begin_and_end_ids_as_asked) {
  const auto first_document = [&](AddId bos, AddId eos, const char* name) {
    TokenizeOptions some = options();
    some.inputs = {*dir_ / "b.txt"};
    some.output = out_ / name;
    some.bos = bos;
    some.eos = eos;
    tokenize_quietly(some);
    const TokenDataset dataset({some.output});
    Ids ids(dataset.document_length(0));
    dataset.read(0, 0, ids);
    const ShardHeader& header = dataset.shards()[0].header();
    EXPECT_EQ(header.bos_id.has_value(), ids.front() == 1);
    EXPECT_EQ(header.eos_id.has_value(), ids.back() == 2);
    return ids;
  };
  const Ids plain = tokenizer().encode("plain 0");
  Ids bos = {1};
  bos.insert(bos.end(), plain.begin(), plain.end());
  Ids both = bos;
  both.push_back(2);
  Ids eos(plain);
  eos.push_back(2);
  EXPECT_EQ(first_document(AddId::kAuto, AddId::kAuto, "1"), bos);
  EXPECT_EQ(first_document(AddId::kOff, AddId::kAuto, "2"), eos);
  EXPECT_EQ(first_document(AddId::kOn, AddId::kOn, "3"), both);
  EXPECT_EQ(first_document(AddId::kOff, AddId::kOff, "4"), plain);
  EXPECT_EQ(add_id_from_name("auto"), AddId::kAuto);
  EXPECT_EQ(add_id_from_name("on"), AddId::kOn);
  EXPECT_EQ(add_id_from_name("off"), AddId::kOff);
  EXPECT_THAT(error_of([] { add_id_from_name("yes"); }, ExitCode::kUsage),
              HasSubstr("use auto, on or off"));
}

TEST_F(TokenizePipeline, V6_boundaries_do_not_need_a_begin_id) {
  TokenizeOptions some = options();
  some.bos = AddId::kOff;
  some.eos = AddId::kOff;
  tokenize_quietly(some);
  const TokenDataset dataset({some.output});
  ASSERT_EQ(dataset.document_count(), 1535U);
  const tokenizer::Tokenizer model = tokenizer();
  std::uint64_t d = 0;
  for (const std::string& text : documents_) {
    if (!text.empty()) {
      ASSERT_EQ(dataset.document_length(d++), model.encode(text).size());
    }
  }
}

TEST_F(TokenizePipeline, V6_text_that_yields_the_begin_id_makes_no_boundary) {
  // In this model <s> is a piece like any other (its type is changed from 3,
  // control, to 4, user defined), so that text can hold the id 1.
  std::string model = read_file(*dir_ / "t.model");
  const std::string piece("\x0a\x03<s>\x15\0\0\0\0\x18\x03", 12);
  const std::size_t at = model.find(piece);
  ASSERT_NE(at, std::string::npos);
  model[at + piece.size() - 1] = '\x04';
  put_file(out_ / "user.model", model);
  put_file(out_ / "d.txt", "the <s> river <s>\n<s> runs\n");
  TokenizeOptions some = options();
  some.inputs = {out_ / "d.txt"};
  some.tokenizer = out_ / "user.model";
  set_split(some.text, "lines");
  tokenize_quietly(some);
  const TokenDataset dataset({some.output});
  ASSERT_EQ(dataset.document_count(), 2U);
  const tokenizer::Tokenizer user(out_ / "user.model");
  Ids ids(dataset.document_length(0));
  dataset.read(0, 0, ids);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 1), 2);
  EXPECT_EQ(user.decode(ids), "the <s> river <s>");
}

TEST_F(TokenizePipeline, input_faults_leave_no_output) {
  const auto fault = [&](const std::string& name, const std::string& content) {
    TokenizeOptions some = options();
    put_file(out_ / name, content);
    some.inputs = {*dir_ / "a.jsonl", out_ / name};
    some.shard_tokens = 20000;
    const std::string message = error_of([&] { tokenize_quietly(some); });
    EXPECT_FALSE(fs::exists(some.output));
    EXPECT_FALSE(fs::exists(out_ / "shards.partial"));
    return message;
  };
  EXPECT_THAT(fault("bad.txt", "good\n\nbad \xFF\n"),
              HasSubstr("bad.txt: line 3, offset 10: invalid UTF-8"));
  EXPECT_THAT(fault("bad.jsonl", "{\"text\": 1}"),
              HasSubstr("bad.jsonl: line 1"));
  EXPECT_THAT(fault("bad.txt.zst", "xxxxxxxx"), HasSubstr("bad.txt.zst"));
}

TEST_F(TokenizePipeline, first_fault_is_reported_whatever_was_read_ahead) {
  std::string lines = "{\"text\": 1}\n";
  for (int i = 0; i < 50; ++i) {
    lines += "{\"text\": \"a\"}\n";
  }
  lines += std::string(5000, 'x') + "\n";
  put_file(out_ / "bad.jsonl", lines);
  TokenizeOptions some = options();
  some.inputs = {out_ / "bad.jsonl"};
  some.text.max_document_bytes = 1000;
  EXPECT_THAT(error_of([&] { tokenize_quietly(some); }),
              HasSubstr("line 1, offset 0: \"text\" is a number"));
}

TEST_F(TokenizePipeline, empty_input_is_an_error) {
  put_file(out_ / "empty.txt", "");
  put_file(out_ / "empty.jsonl", "{\"text\": \"\"}\n\n");
  TokenizeOptions some = options();
  some.inputs = {out_ / "empty.txt", out_ / "empty.jsonl"};
  EXPECT_THAT(error_of([&] { tokenize_quietly(some); }),
              AllOf(HasSubstr("empty.txt"), HasSubstr("holds no text"),
                    HasSubstr("1 empty documents")));
  EXPECT_FALSE(fs::exists(some.output));
}

TEST_F(TokenizePipeline, existing_output_is_replaced_only_when_asked) {
  TokenizeOptions some = options();
  some.inputs = {*dir_ / "b.txt"};
  tokenize_quietly(some);
  const std::string before = all_bytes(some.output);
  some.inputs = {*dir_ / "a.jsonl"};
  EXPECT_THAT(error_of([&] { tokenize_quietly(some); }, ExitCode::kUsage),
              AllOf(HasSubstr("exists already"), HasSubstr("--overwrite")));
  EXPECT_EQ(all_bytes(some.output), before);
  some.overwrite = true;
  tokenize_quietly(some);
  EXPECT_NE(all_bytes(some.output), before);
  EXPECT_FALSE(fs::exists(out_ / "shards.old"));
  EXPECT_FALSE(fs::exists(out_ / "shards.partial"));

  // Never anything that tokenize did not make.
  put_file(some.output / "thesis.txt", "dear");
  EXPECT_THAT(error_of([&] { tokenize_quietly(some); }, ExitCode::kUsage),
              HasSubstr("thesis.txt"));
  EXPECT_EQ(read_file(some.output / "thesis.txt"), "dear");
  some.output = some.output / "thesis.txt";
  EXPECT_THAT(error_of([&] { tokenize_quietly(some); }, ExitCode::kUsage),
              HasSubstr("is a file"));
}

TEST_F(TokenizePipeline, slash_at_the_end_of_the_output_means_the_same) {
  TokenizeOptions some = options();
  some.output = (out_ / "shards").string() + "/";
  tokenize_quietly(some);
  EXPECT_TRUE(fs::exists(out_ / "shards" / "shard-00000.tokens"));
  EXPECT_FALSE(fs::exists(out_ / "shards" / ".partial"));
}

TEST_F(TokenizePipeline,
       a_kill_at_any_time_leaves_nothing_that_looks_complete) {
  TokenizeOptions some = options();
  some.shard_tokens = 20000;
  some.threads = 2;
  int killed = 0;
  for (int round = 0; round < 12; ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        tokenize_quietly(some);
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) {
      ++killed;
    }
    if (fs::exists(some.output)) {
      verify({some.output}, {}, [](const std::string&) {});
      EXPECT_EQ(TokenDataset({some.output}).document_count(), 1535U);
      fs::remove_all(some.output);
    }
  }
  EXPECT_GT(killed, 0);
  // The next run takes over what was left.
  tokenize_quietly(some);
  EXPECT_FALSE(fs::exists(out_ / "shards.partial"));
  verify({some.output}, {}, [](const std::string&) {});
}

TEST_F(TokenizePipeline, a_full_disk_leaves_the_old_output_and_nothing_else) {
  TokenizeOptions some = options();
  some.inputs = {*dir_ / "b.txt"};
  tokenize_quietly(some);
  const std::string before = all_bytes(some.output);
  some.inputs = {*dir_ / "a.jsonl"};
  some.overwrite = true;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // A limit on the size of files stands for the full disk.
    const rlimit limit = {20000, 20000};
    ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      tokenize_quietly(some);
    } catch (const Error& error) {
      const bool named = std::string_view(error.what()).find("shard-0000") !=
                         std::string_view::npos;
      ::_exit(named ? 42 : 43);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 42) << "an Error that names the file";
  EXPECT_EQ(all_bytes(some.output), before);
  EXPECT_FALSE(fs::exists(out_ / "shards.partial"));
}

TEST_F(TokenizePipeline, wrong_options_are_refused) {
  TokenizeOptions some = options();
  some.threads = -1;
  EXPECT_THAT(error_of([&] { tokenize_quietly(some); }, ExitCode::kUsage),
              HasSubstr("-1 threads"));
  some.threads = 1'000'000;
  EXPECT_THAT(error_of([&] { tokenize_quietly(some); }, ExitCode::kUsage),
              HasSubstr("expected 1 to 4096"));
  some = options();
  some.shard_tokens = 0;
  EXPECT_THAT(error_of([&] { tokenize_quietly(some); }, ExitCode::kUsage),
              HasSubstr("shards of 0 tokens"));
}

TEST_F(TokenizePipeline, inspect_describes_what_is_there) {
  TokenizeOptions some = options();
  some.inputs = {*dir_ / "b.txt"};
  tokenize_quietly(some);
  const TokenDataset dataset({some.output});
  const std::string text = describe(dataset);
  EXPECT_THAT(text, AllOf(HasSubstr("vocabulary       290"),
                          HasSubstr("documents        50"),
                          HasSubstr(to_hex(tokenizer().hash()))));
  EXPECT_THAT(first_documents(dataset, tokenizer(), 2, 100),
              AllOf(HasSubstr("plain 0"), HasSubstr("plain 1"),
                    ::testing::Not(HasSubstr("plain 2"))));
  EXPECT_THAT(first_documents(dataset, tokenizer(), 1, 2),
              HasSubstr("the first 2"));
}

TEST_F(TokenizePipeline, trained_tokenizer_is_not_overwritten_unasked) {
  TrainTokenizerOptions some;
  some.inputs = {*dir_ / "a.jsonl"};
  some.output = out_ / "t.model";
  some.train.vocab_size = 280;
  some.progress = false;
  EXPECT_EQ(train_tokenizer(some).vocab_size(), 280);
  EXPECT_THAT(error_of([&] { train_tokenizer(some); }, ExitCode::kUsage),
              HasSubstr("exists already"));
  some.overwrite = true;
  some.train.vocab_size = 285;
  EXPECT_EQ(train_tokenizer(some).vocab_size(), 285);
}

}  // namespace
}  // namespace osdn::data
