#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "osdn/core/error.h"
#include "osdn/core/file.h"
#include "osdn/core/log.h"
#include "osdn/core/random.h"
#include "osdn/tokenizer/tokenizer.h"
#include "osdn/tokenizer/train.h"
#include "support/message_of.h"
#include "support/shared_data.h"
#include "support/temp_dir.h"

namespace osdn::tokenizer {
namespace {

using test::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

constexpr const char* kMistral = "data/tokenizers/mistral-v0.1-32k.model";

// Text of made-up words, the same on every machine.
std::vector<std::string> made_up_texts(int count) {
  Xoshiro256 random(7);
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) {
    std::string text;
    for (int word = 0; word < 60; ++word) {
      const std::uint64_t letters = 1 + random.below(7);
      for (std::uint64_t l = 0; l < letters; ++l) {
        const std::uint64_t kind = random.below(12);
        text += static_cast<char>('a' + (kind * kind) % 26);
      }
      text += word % 12 == 11 ? '\n' : ' ';
    }
    texts.push_back(text);
  }
  return texts;
}

std::string train_on(const std::vector<std::string>& texts,
                     const TrainOptions& options) {
  std::size_t next = 0;
  return train(options, [&](std::string& text) {
    if (next == texts.size()) {
      return false;
    }
    text = texts[next++];
    return true;
  });
}

TEST(Tokenizer, golden_ids) {
  OSDN_NEEDS_SHARED(kMistral);
  const Tokenizer tokenizer(test::shared_path(kMistral));
  EXPECT_EQ(tokenizer.vocab_size(), 32000);
  EXPECT_EQ(tokenizer.unk_id(), 0);
  EXPECT_EQ(tokenizer.bos_id(), 1);
  EXPECT_EQ(tokenizer.eos_id(), 2);
  EXPECT_EQ(tokenizer.sha256(),
            "dadfd56d766715c61d2ef780a525ab43b8e6da4de6865bda3d95fdef5e134055");
  EXPECT_THAT(tokenizer.encode("Hello world, it's 2024."),
              ElementsAre(22557, 1526, 28725, 378, 28742, 28713, 28705, 28750,
                          28734, 28750, 28781, 28723));
  EXPECT_THAT(tokenizer.encode("  double  space"),
              ElementsAre(259, 3579, 28705, 2764));
  EXPECT_THAT(tokenizer.encode("line1\nline2\ttab"),
              ElementsAre(1407, 28740, 13, 1081, 28750, 12, 4252));
  EXPECT_THAT(tokenizer.encode("Question: foo\nAnswer: bar"),
              ElementsAre(22478, 28747, 19222, 13, 2820, 16981, 28747, 2843));
  EXPECT_THAT(tokenizer.encode(""), ElementsAre());
}

TEST(Tokenizer, golden_token_count_of_a_whole_file) {
  OSDN_NEEDS_SHARED(kMistral);
  OSDN_NEEDS_SHARED("data/eval/wikitext2_test.raw");
  const Tokenizer tokenizer(test::shared_path(kMistral));
  const std::string text =
      read_file(test::shared_path("data/eval/wikitext2_test.raw"));
  const Ids ids = tokenizer.encode(text);
  EXPECT_EQ(ids.size(), 328879U);
  EXPECT_EQ(tokenizer.decode(ids), text);
}

TEST(Tokenizer, V6_control_ids_are_defined_but_never_emitted_for_text) {
  OSDN_NEEDS_SHARED(kMistral);
  const Tokenizer tokenizer(test::shared_path(kMistral));
  const Ids ids = tokenizer.encode("a <s> b </s> c");
  EXPECT_THAT(ids, ::testing::Not(::testing::Contains(1)));
  EXPECT_THAT(ids, ::testing::Not(::testing::Contains(2)));
  EXPECT_EQ(tokenizer.decode(Ids{1, 22557, 2}), "Hello");
}

TEST(Tokenizer, pieces_and_ids) {
  test::TempDir dir;
  TrainOptions options;
  options.vocab_size = 400;
  write_file_atomic(dir / "t.model", train_on(made_up_texts(200), options));
  const Tokenizer tokenizer(dir / "t.model");
  EXPECT_EQ(tokenizer.vocab_size(), 400);
  for (std::int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    EXPECT_EQ(tokenizer.id_of(tokenizer.piece_of(id)), id);
  }
  EXPECT_EQ(tokenizer.id_of("no such piece"), std::nullopt);
  EXPECT_EQ(tokenizer.id_of("<unk>"), 0);
  EXPECT_THAT(message_of([&] { tokenizer.piece_of(400); }, ExitCode::kBadInput),
              HasSubstr("id 400 is outside the vocabulary, expected 0 to 399"));
  EXPECT_THAT(message_of(
                  [&] {
                    tokenizer.decode(Ids{5, -1});
                  },
                  ExitCode::kBadInput),
              HasSubstr("id -1 is outside"));
}

TEST(Tokenizer, what_is_no_model_is_an_error_with_the_file) {
  test::TempDir dir;
  EXPECT_THAT(
      message_of([&] { Tokenizer(dir / "gone.model"); }, ExitCode::kBadInput),
      HasSubstr("gone.model"));
  write_file_atomic(dir / "empty.model", "");
  EXPECT_THAT(
      message_of([&] { Tokenizer(dir / "empty.model"); }, ExitCode::kBadInput),
      HasSubstr("empty.model: is not a SentencePiece model"));
  write_file_atomic(dir / "text.model", "This is only text, and no model.");
  EXPECT_THAT(
      message_of([&] { Tokenizer(dir / "text.model"); }, ExitCode::kBadInput),
      HasSubstr("text.model: is not a SentencePiece model"));
}

// Both kinds of model, and both ways of a space in front of the text.
TEST(Tokenizer, a_long_text_has_the_ids_of_its_words) {
  test::TempDir dir;
  const std::vector<std::string> texts = made_up_texts(200);
  std::vector<std::string> models;
  for (const Algorithm algorithm : {Algorithm::kUnigram, Algorithm::kBpe}) {
    TrainOptions options;
    options.algorithm = algorithm;
    options.vocab_size = 400;
    models.push_back(train_on(texts, options));
  }
  std::string text;
  Ids expected;
  for (const std::string& model : models) {
    write_file_atomic(dir / "t.model", model);
    const Tokenizer tokenizer(dir / "t.model");
    text.clear();
    expected.clear();
    // Longer than two slices; lines and runs of spaces, which are no cuts.
    for (std::size_t i = 0; text.size() < 500000; ++i) {
      const std::string word = i % 7 == 0
                                   ? "  gr\xC3\xBC n\n"
                                   : "abdk" + std::to_string(i * i % 1009);
      text += (i == 0 ? "" : " ") + word;
      const Ids ids = tokenizer.encode(word);
      expected.insert(expected.end(), ids.begin(), ids.end());
    }
    EXPECT_EQ(tokenizer.encode(text), expected);
    EXPECT_EQ(tokenizer.decode(expected), text);
    // No place to cut: whole, and still right.
    const std::string dense(300000, 'a');
    EXPECT_EQ(tokenizer.decode(tokenizer.encode(dense)), dense);
  }
}

TEST(Tokenizer, bytes_of_ids_make_the_text) {
  test::TempDir dir;
  TrainOptions options;
  options.vocab_size = 400;
  write_file_atomic(dir / "t.model", train_on(made_up_texts(200), options));
  const Tokenizer tokenizer(dir / "t.model");
  for (const std::string text :
       {"abc abd", "  two  spaces ", "line\nline\t", "Größe 東京 🙂"}) {
    std::string bytes;
    for (const std::int32_t id : tokenizer.encode(text)) {
      bytes += tokenizer.bytes_of(id);
    }
    EXPECT_EQ(bytes, " " + text);
  }
  EXPECT_EQ(tokenizer.bytes_of(*tokenizer.id_of("<0xE2>")), "\xE2");
  EXPECT_EQ(tokenizer.bytes_of(*tokenizer.id_of("<0x00>")),
            std::string(1, '\0'));
  EXPECT_EQ(tokenizer.bytes_of(1), "");
  EXPECT_EQ(tokenizer.bytes_of(2), "");
  EXPECT_EQ(tokenizer.bytes_of(0), " \xE2\x81\x87 ");
  EXPECT_THROW(tokenizer.bytes_of(400), Error);
}

TEST(Tokenizer, a_vocabulary_must_hold_all_pieces) {
  test::TempDir dir;
  TrainOptions options;
  options.vocab_size = 400;
  write_file_atomic(dir / "t.model", train_on(made_up_texts(200), options));
  const Tokenizer tokenizer(dir / "t.model");
  std::string warnings;
  const log::Capture capture(
      [&](log::Level, std::string_view text) { warnings += text; });
  tokenizer.check_fits(400);
  EXPECT_EQ(warnings, "");
  tokenizer.check_fits(512);
  EXPECT_THAT(warnings, HasSubstr("400 pieces, the model a vocabulary of 512"));
  EXPECT_THAT(
      message_of([&] { tokenizer.check_fits(399); }, ExitCode::kBadInput),
      HasSubstr("use the tokenizer that the model was trained with"));
}

TEST(TokenizerTraining, text_comes_back_whatever_it_holds) {
  test::TempDir dir;
  for (const Algorithm algorithm : {Algorithm::kUnigram, Algorithm::kBpe}) {
    TrainOptions options;
    options.algorithm = algorithm;
    options.vocab_size = 350;
    write_file_atomic(dir / "t.model", train_on(made_up_texts(200), options));
    const Tokenizer tokenizer(dir / "t.model");
    EXPECT_EQ(tokenizer.vocab_size(), 350);
    EXPECT_EQ(tokenizer.bos_id(), 1);
    EXPECT_EQ(tokenizer.eos_id(), 2);
    for (const std::string text :
         {"abc abd", "  two  spaces ", "line\nline\r\n\ttab",
          "Größe 東京 🙂", "unseen: Q#%7&42"}) {
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text)), text);
    }
  }
}

TEST(TokenizerTraining, same_text_and_options_give_the_same_bytes) {
  const std::vector<std::string> texts = made_up_texts(300);
  for (const Algorithm algorithm : {Algorithm::kUnigram, Algorithm::kBpe}) {
    TrainOptions options;
    options.algorithm = algorithm;
    options.vocab_size = 350;
    options.sample.max_sentences = 700;
    const std::string model = train_on(texts, options);
    EXPECT_EQ(train_on(texts, options), model);
    TrainOptions other = options;
    other.sample.seed = 43;
    EXPECT_NE(train_on(texts, other), model) << "the seed must pick the sample";
  }
}

TEST(TokenizerTraining, options_that_cannot_be_met_are_refused) {
  const std::vector<std::string> texts = made_up_texts(5);
  TrainOptions options;
  options.vocab_size = 259;
  EXPECT_THAT(message_of([&] { train_on(texts, options); }, ExitCode::kUsage),
              HasSubstr("expected at least 260"));
  options.vocab_size = 30000;
  for (const Algorithm algorithm : {Algorithm::kUnigram, Algorithm::kBpe}) {
    options.algorithm = algorithm;
    EXPECT_THAT(
        message_of([&] { train_on(texts, options); }, ExitCode::kUsage),
        testing::AllOf(HasSubstr("Give more text or a smaller vocabulary"),
                       HasSubstr("30000"), testing::Not(HasSubstr(".cc("))));
  }
  // 200 characters do not go into 41 pieces.
  std::string many = "";
  for (int c = 0; c < 200; ++c) {
    many += static_cast<char>(0xC4 + c / 64);
    many += static_cast<char>(0x80 + c % 64);
  }
  options.vocab_size = 300;
  options.character_coverage = 1.0;
  EXPECT_THAT(message_of(
                  [&] {
                    train_on({many, many}, options);
                  },
                  ExitCode::kUsage),
              testing::AllOf(HasSubstr("300 vs "),
                             HasSubstr("give a larger vocabulary or a lower"),
                             testing::Not(HasSubstr("smaller vocabulary"))));
  options.vocab_size = 300;
  options.character_coverage = 0.0;
  EXPECT_THAT(message_of([&] { train_on(texts, options); }, ExitCode::kUsage),
              HasSubstr("character coverage 0"));
  options.character_coverage = 1.0;
  options.max_piece_length = 0;
  EXPECT_THAT(message_of([&] { train_on(texts, options); }, ExitCode::kUsage),
              HasSubstr("longest piece 0"));
  EXPECT_THAT(
      message_of([&] { algorithm_from_name("wordpiece"); }, ExitCode::kUsage),
      HasSubstr("use unigram or bpe"));
  EXPECT_THAT(message_of(
                  [&] {
                    train_on({"", "\n\n"}, TrainOptions{});
                  },
                  ExitCode::kBadInput),
              HasSubstr("empty"));
}

}  // namespace
}  // namespace osdn::tokenizer
