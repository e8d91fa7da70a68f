// Greedy generation of many prompts: what comes out depends on the prompt
// alone.

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>

#include "osdn/eval/model_runs.h"
#include "support/message_of.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace osdn::eval {
namespace {

using Ids = std::vector<std::int32_t>;
using testing::HasSubstr;
using tokenizer::Tokenizer;

class Generation : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<test::TempDir>();
    test::write_tokenizer(*dir_ / "t.model");
    test::save_checkpoint(*dir_ / "osdn", 1, test::osdn_apf_model());
    test::save_checkpoint(*dir_ / "hybrid", 1, test::hybrid_model());
  }
  static void TearDownTestSuite() { dir_.reset(); }

  Generation()
      : tokenizer_(*dir_ / "t.model"),
        trained_(model::load_trained_model(*dir_ / GetParam(), at::kFloat,
                                           at::kCPU)),
        exact_(model::load_trained_model(*dir_ / GetParam(), at::kDouble,
                                         at::kCPU)) {}

  /// Lines of different length, some of them alike.
  static RequestBatch lines(std::int64_t count, std::int64_t new_tokens) {
    RequestBatch batch;
    batch.kind = RequestKind::kGeneration;
    batch.generation.max_new_tokens = new_tokens;
    for (std::int64_t i = 0; i < count; ++i) {
      batch.requests.push_back(
          {.context = test::tiny_text(static_cast<std::uint64_t>(i % 17),
                                      static_cast<int>(1 + i % 4)),
           .place = "lines:" + std::to_string(i + 1)});
    }
    return batch;
  }

  std::vector<Answer> answers(const RequestBatch& batch,
                              std::int64_t batch_tokens = 8192,
                              std::optional<std::int64_t> max_len = {}) {
    const at::NoGradGuard no_grad;
    const ModelSession session{trained_, &tokenizer_,  max_len,
                               false,    batch_tokens, 1};
    const std::unique_ptr<BatchRun> run = generation_run(session, batch);
    std::map<std::size_t, Answer> found;
    std::int64_t work = 0;
    std::int64_t total = 0;
    for (std::size_t pack = 0; pack < run->packs().size(); ++pack) {
      run->answer(
          pack,
          [&](std::size_t row, Answer answer) {
            EXPECT_TRUE(found.emplace(row, std::move(answer)).second);
          },
          [&](std::int64_t done) { work += done; });
      for (const std::size_t row : run->packs()[pack]) {
        total += run->work_of(row);
      }
    }
    EXPECT_EQ(work, total);
    EXPECT_EQ(found.size(), batch.requests.size());
    std::vector<Answer> out;
    for (auto& [row, answer] : found) out.push_back(std::move(answer));
    return out;
  }

  /// From one token at a time in float64: ids up to and with an end.
  Ids reference(const Ids& prompt, std::int64_t new_tokens) const {
    const at::NoGradGuard no_grad;
    model::ModelState state;
    const auto next = [&](std::int32_t id) {
      const at::Tensor logits = exact_.model.logits(
          at::full({1}, static_cast<std::int64_t>(id), at::kLong),
          ops::Documents::single(1), &state);
      return static_cast<std::int32_t>(
          logits.narrow(1, 0, tokenizer_.vocab_size())
              .argmax()
              .item<int64_t>());
    };
    std::int32_t best = 0;
    for (const std::int32_t id : prompt) best = next(id);
    Ids fresh{best};
    while (std::ssize(fresh) < new_tokens && best != *tokenizer_.eos_id() &&
           best != *tokenizer_.bos_id()) {
      best = next(best);
      fresh.push_back(best);
    }
    return fresh;
  }

  std::string text_of(Ids ids) const {
    if (!ids.empty() && ids.back() <= 2) ids.pop_back();
    return tokenizer_.decode(ids);
  }

  static std::unique_ptr<test::TempDir> dir_;
  Tokenizer tokenizer_;
  model::TrainedModel trained_;
  model::TrainedModel exact_;
};

std::unique_ptr<test::TempDir> Generation::dir_;

TEST_P(Generation, continues_with_the_most_probable_token) {
  const RequestBatch batch = lines(5, 12);
  const std::vector<Answer> got = answers(batch);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const Ids expected =
        reference(tokenizer_.encode(batch.requests[i].context), 12);
    EXPECT_EQ(got[i].output, text_of(expected)) << i;
    EXPECT_EQ(got[i].tokens, std::ssize(expected)) << i;
    EXPECT_FALSE(got[i].truncated);
  }
}

// Logits of a batch of another size differ by rounding (1e-6 of their size),
// which changes a token only where two are as near as that: here none are.
TEST_P(Generation, does_not_depend_on_batch_size_or_order) {
  const RequestBatch batch = lines(150, 10);
  const std::vector<Answer> expected = answers(batch);
  for (const std::int64_t batch_tokens : {1, 300, 1000}) {
    EXPECT_EQ(answers(batch, batch_tokens), expected) << batch_tokens;
  }
  RequestBatch reversed = batch;
  std::reverse(reversed.requests.begin(), reversed.requests.end());
  std::vector<Answer> back = answers(reversed);
  std::reverse(back.begin(), back.end());
  EXPECT_EQ(back, expected);
  // Rows that are asked alone.
  for (const std::size_t row : {0U, 77U, 149U}) {
    RequestBatch one = batch;
    one.requests = {batch.requests[row]};
    EXPECT_EQ(answers(one).front(), expected[row]);
  }
}

TEST_P(Generation, cuts_prompts_by_the_rule) {
  RequestBatch batch = lines(4, 6);
  const auto ids_of = [&](std::size_t row) {
    return tokenizer_.encode(batch.requests[row].context);
  };
  const auto check = [&](const std::vector<Answer>& got, auto cut) {
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Ids ids = ids_of(i);
      EXPECT_EQ(got[i].truncated, ids.size() > 20U) << i;
      EXPECT_EQ(got[i].output, text_of(reference(cut(ids), 6))) << i;
    }
  };
  const auto last = [](const Ids& ids) {
    return Ids(ids.end() - std::min<std::ptrdiff_t>(20, std::ssize(ids)),
               ids.end());
  };
  // 26 - 6 new ones.
  check(answers(batch, 8192, 26), last);
  batch.generation.prompt_tokens = 20;
  check(answers(batch), last);
  batch.generation.truncation = Truncation::kRight;
  check(answers(batch), [](const Ids& ids) {
    return Ids(ids.begin(),
               ids.begin() + std::min<std::ptrdiff_t>(20, std::ssize(ids)));
  });
  batch.generation.truncation = Truncation::kMiddle;
  check(answers(batch), [&](const Ids& ids) {
    if (ids.size() <= 20) return ids;
    return tokenizer_.encode(
        tokenizer_.decode(Ids(ids.begin(), ids.begin() + 10)) +
        tokenizer_.decode(Ids(ids.end() - 10, ids.end())));
  });
}

TEST_P(Generation, puts_a_begin_token_in_front_once) {
  RequestBatch batch = lines(3, 6);
  batch.bos = true;
  const std::vector<Answer> got = answers(batch);
  for (std::size_t i = 0; i < got.size(); ++i) {
    Ids ids = tokenizer_.encode(batch.requests[i].context);
    ids.insert(ids.begin(), *tokenizer_.bos_id());
    EXPECT_EQ(got[i].output, text_of(reference(ids, 6)));
  }
}

TEST_P(Generation, ends_before_the_first_stop) {
  RequestBatch batch = lines(6, 12);
  const std::vector<Answer> whole = answers(batch);
  // Pieces of what comes are stops; one of them is nobody's.
  const std::string& text = whole[0].output;
  ASSERT_GE(text.size(), 6U);
  batch.generation.stops = {"\x01", text.substr(3, 2)};
  const std::vector<Answer> cut = answers(batch);
  for (std::size_t i = 0; i < cut.size(); ++i) {
    const std::size_t at = whole[i].output.find(batch.generation.stops[1]);
    EXPECT_EQ(cut[i].output, whole[i].output.substr(0, at));
    EXPECT_LE(cut[i].tokens, whole[i].tokens);
  }
  EXPECT_LT(cut[0].output.size(), text.size());
  // From the third token on only.
  batch.generation.tokens_before_stop = 2;
  const std::vector<Answer> later = answers(batch);
  const std::size_t free =
      tokenizer_
          .decode(
              Ids(reference(tokenizer_.encode(batch.requests[0].context), 2)))
          .size();
  EXPECT_EQ(later[0].output,
            text.substr(0, text.find(batch.generation.stops[1], free)));
}

TEST_P(Generation, refuses_what_it_cannot_continue) {
  RequestBatch batch = lines(2, 6);
  batch.requests[1].context = "";
  EXPECT_THAT(test::message_of([&] { answers(batch); }, ExitCode::kBadInput),
              HasSubstr("lines:2: the prompt gives no token"));
  batch = lines(2, 30);
  EXPECT_THAT(
      test::message_of([&] { answers(batch, 8192, 24); }, ExitCode::kUsage),
      HasSubstr("--max-len is 24"));
}

INSTANTIATE_TEST_SUITE_P(Models, Generation, testing::Values("osdn", "hybrid"),
                         [](const auto& test) {
                           return std::string(test.param);
                         });

}  // namespace
}  // namespace osdn::eval
