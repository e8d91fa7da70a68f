// Sequences in a batch against one token at a time, and what must not change
// them: the batch, its order, the cut of the prompt, an interruption.

#include "osdn/generate/generator.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "osdn/core/random.h"
#include "osdn/model/model_state.h"
#include "osdn/model/trained_model.h"
#include "support/temp_dir.h"
#include "support/tiny_model.h"

namespace osdn::generate {
namespace {

using Ids = std::vector<std::int32_t>;

struct Kind {
  std::string name;
  nlohmann::json model;
};
void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

class GeneratorTest : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    test::write_tokenizer(dir_ / "t.model");
    tokenizer_.emplace(dir_ / "t.model");
    test::save_checkpoint(dir_ / "run", 1, GetParam().model);
  }
  model::TrainedModel load(at::ScalarType dtype) const {
    return model::load_trained_model(dir_ / "run", dtype, at::kCPU);
  }
  Sequence sequence(std::uint64_t index, const Ids& prompt) const {
    Sequence s{{}, TextStream(*tokenizer_, {})};
    s.at.index = index;
    s.at.feed = prompt;
    add_seen(s.at.seen, prompt);
    return s;
  }
  /// Lengths from 1 token to several chunks.
  std::vector<Sequence> sample(int count) const {
    Xoshiro256 random(5);
    std::vector<Sequence> all;
    for (int i = 0; i < count; ++i) {
      const std::uint64_t n = i % 4 == 0 ? 1 : 1 + random.below(200);
      Ids prompt;
      for (std::uint64_t t = 0; t < n; ++t) {
        prompt.push_back(static_cast<std::int32_t>(3 + random.below(280)));
      }
      all.push_back(sequence(static_cast<std::uint64_t>(i), prompt));
    }
    return all;
  }
  GeneratorOptions options() const {
    GeneratorOptions o;
    o.sampling.temperature = 0.8;
    o.sampling.top_k = 20;
    o.sampling.top_p = 0.95;
    o.sampling.repetition_penalty = 1.2;
    o.sampling.seed = 3;
    o.max_new_tokens = 12;
    o.usable_ids = test::kVocab;
    return o;
  }
  static Figures go(const model::LanguageModel& model,
                    const GeneratorOptions& o, std::vector<Sequence>& all) {
    return run(model, o, all, {}, [] { return false; });
  }
  static std::vector<Ids> ids_of(const std::vector<Sequence>& all) {
    std::vector<Ids> ids;
    for (const Sequence& s : all) ids.push_back(s.ids);
    return ids;
  }

  test::TempDir dir_;
  std::optional<tokenizer::Tokenizer> tokenizer_;
};

/// The same choices from whole passes over everything so far.
Ids from_whole_passes(const model::LanguageModel& model, Sequence s,
                      const GeneratorOptions& o) {
  const at::NoGradGuard no_grad;
  std::vector<std::int64_t> all(s.at.feed.begin(), s.at.feed.end());
  Ids ids;
  while (static_cast<std::int64_t>(ids.size()) < o.max_new_tokens) {
    const auto T = static_cast<std::int64_t>(all.size());
    const at::Tensor last =
        model
            .logits(at::tensor(at::ArrayRef<std::int64_t>(all), at::kLong),
                    ops::Documents::single(T))[T - 1]
            .to(at::kDouble)
            .contiguous();
    const double* row = last.data_ptr<double>();
    const std::int32_t id = next_token({row, row + o.usable_ids}, s.at.seen,
                                       o.sampling, s.at.index, ids.size());
    ids.push_back(id);
    all.push_back(id);
    add_seen(s.at.seen, {&id, 1});
  }
  return ids;
}

TEST_P(GeneratorTest, a_batch_equals_whole_passes_of_each_prompt_alone) {
  const auto trained = load(at::kDouble);
  std::vector<Sequence> all = sample(9);
  std::vector<Ids> expected;
  for (const Sequence& s : all) {
    expected.push_back(from_whole_passes(trained.model, s, options()));
  }
  std::int64_t prompt_tokens = 0;
  for (const Sequence& s : all) {
    prompt_tokens += static_cast<std::int64_t>(s.at.feed.size());
  }
  for (const std::int64_t batch : {1, 4, 100}) {
    for (const std::int64_t prefill : {1, 50, 1000}) {
      GeneratorOptions o = options();
      o.batch = batch;
      o.prefill_tokens = prefill;
      std::vector<Sequence> copy = all;
      const Figures figures = go(trained.model, o, copy);
      EXPECT_EQ(ids_of(copy), expected) << batch << " " << prefill;
      EXPECT_EQ(figures.prefill_tokens, prompt_tokens - 9);
      EXPECT_EQ(figures.decode_tokens, 9 * 12);
    }
  }
}

TEST_P(GeneratorTest, those_that_end_leave_and_others_come_in) {
  const auto trained = load(at::kDouble);
  GeneratorOptions o = options();
  o.max_new_tokens = 40;
  o.batch = 3;
  std::vector<Sequence> all = sample(8);
  std::vector<Ids> expected;
  for (const Sequence& s : all) {
    expected.push_back(from_whole_passes(trained.model, s, o));
  }
  // Ids that occur early in some and late or never in others.
  o.end_ids = {expected[1][2], expected[4][9]};
  go(trained.model, o, all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    Ids cut;
    for (const std::int32_t id : expected[i]) {
      cut.push_back(id);
      if (id == o.end_ids[0] || id == o.end_ids[1]) break;
    }
    EXPECT_EQ(all[i].ids, cut) << i;
    EXPECT_EQ(all[i].at.finish, cut.size() < 40 || cut.back() == o.end_ids[0] ||
                                        cut.back() == o.end_ids[1]
                                    ? Finish::kEnd
                                    : Finish::kLength);
  }
  EXPECT_EQ(all[1].at.finish, Finish::kEnd);
}

TEST_P(GeneratorTest, a_run_that_is_cut_anywhere_goes_on_the_same) {
  const auto trained = load(at::kDouble);
  GeneratorOptions o = options();
  o.prefill_tokens = 64;
  o.batch = 4;
  std::vector<Sequence> whole = sample(6);
  go(trained.model, o, whole);
  o.keep_states = true;
  for (int passes = 0; passes < 30; passes += 3) {
    std::vector<Sequence> cut = sample(6);
    int left = passes;
    run(trained.model, o, cut, {}, [&] { return left-- <= 0; });
    std::vector<Ids> ids = ids_of(cut);
    for (Sequence& s : cut) {
      if (s.at.finish == Finish::kInterrupted) s.at.finish.reset();
      s.ids.clear();
    }
    // Each has its own count left, as the uncut run has.
    for (std::size_t i = 0; i < cut.size(); ++i) {
      if (cut[i].at.finish) continue;
      GeneratorOptions rest = o;
      rest.max_new_tokens -= static_cast<std::int64_t>(ids[i].size());
      std::vector<Sequence> one = {cut[i]};
      go(trained.model, rest, one);
      ids[i].insert(ids[i].end(), one[0].ids.begin(), one[0].ids.end());
    }
    EXPECT_EQ(ids, ids_of(whole)) << passes;
  }
}

TEST_P(GeneratorTest, no_new_token_leaves_the_last_id_to_be_fed) {
  const auto trained = load(at::kDouble);
  GeneratorOptions o = options();
  std::vector<Sequence> whole = sample(5);
  go(trained.model, o, whole);
  std::vector<Sequence> cut = sample(5);
  o.max_new_tokens = 0;
  o.keep_states = true;
  EXPECT_EQ(go(trained.model, o, cut).decode_tokens, 0);
  o.max_new_tokens = 12;
  for (Sequence& s : cut) {
    EXPECT_EQ(s.at.feed.size(), 1U);
    EXPECT_EQ(s.at.finish, Finish::kLength);
    s.at.finish.reset();
  }
  go(trained.model, o, cut);
  EXPECT_EQ(ids_of(cut), ids_of(whole));
}

TEST_P(GeneratorTest, ids_without_text_are_never_chosen) {
  const auto trained = load(at::kFloat);
  GeneratorOptions o = options();
  o.sampling = {};
  o.sampling.temperature = 5;
  o.usable_ids = 40;
  Sequence prompt = sequence(0, {3, 4, 5});
  std::vector<Sequence> all(20, prompt);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].at.index = i;
  go(trained.model, o, all);
  for (const Sequence& s : all) {
    for (const std::int32_t id : s.ids) EXPECT_LT(id, 40);
  }
}

/// The largest pass that the model was given.
class LargestPass : public layers::AttentionObserver {
 public:
  void on_attention(const layers::AttentionTrace& trace) override {
    tokens = std::max(tokens, trace.documents.tokens());
  }
  std::int64_t tokens = 0;
};

// What a pass holds is all that grows with its tokens, so the longest prompt
// takes the memory of one pass.
TEST_P(GeneratorTest, a_pass_never_grows_with_the_prompt) {
  auto trained = load(at::kFloat);
  LargestPass largest;
  trained.model.observe(&largest);
  GeneratorOptions o = options();
  o.prefill_tokens = 70;
  o.keep_states = true;
  o.max_new_tokens = 1;
  std::vector<Sequence> all = sample(3);
  all.push_back(sequence(3, Ids(3000, 7)));
  go(trained.model, o, all);
  const config::ModelConfig& c = trained.model.config();
  // Softmax layers show themselves to no observer.
  if (!c.is_transformer()) {
    EXPECT_EQ(largest.tokens, 64);  // whole chunks
  }
  std::int64_t short_state = 0, long_state = 0;
  for (const auto& [s, size] :
       {std::pair{&all[1], &short_state}, std::pair{&all[3], &long_state}}) {
    for (const auto& layer : s->at.state.layers) {
      for (const model::StateTensor& entry : model::state_tensors()) {
        const at::Tensor& t = layer.*entry.tensor;
        *size += t.defined() ? t.numel() : 0;
      }
    }
  }
  EXPECT_GT(short_state, 0);
  // A delta rule's state is of one size; softmax attention keeps every token.
  if (c.softmax_layers() == 0) {
    EXPECT_EQ(short_state, long_state);
  } else {
    EXPECT_LT(short_state, long_state / 5);
  }
}

std::vector<Kind> kinds() {
  nlohmann::json gdn = test::osdn_apf_model();
  gdn["layer"] = "gdn";
  gdn["head_dim"] = 16;
  nlohmann::json kda = test::deltanet_model();
  kda["layer"] = "kda";
  kda["head_dim"] = 16;
  return {{"deltanet", test::deltanet_model()},
          {"deltanet_osdn_apf", test::osdn_apf_model()},
          {"gdn_osdn_apf", gdn},
          {"kda", kda},
          {"hybrid", test::hybrid_model()},
          {"transformer", test::transformer_model()}};
}

INSTANTIATE_TEST_SUITE_P(Layers, GeneratorTest, testing::ValuesIn(kinds()),
                         [](const auto& k) { return k.param.name; });

}  // namespace
}  // namespace osdn::generate
