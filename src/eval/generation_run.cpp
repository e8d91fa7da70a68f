#include <algorithm>
#include <numeric>
#include <utility>

#include "osdn/core/concat.h"
#include "osdn/core/error.h"
#include "osdn/eval/model_runs.h"
#include "osdn/generate/generator.h"

namespace osdn::eval {
namespace {

using Ids = std::vector<std::int32_t>;

/// Sequences that are continued side by side for each token of a prefill pass:
/// a decoding step is then a good part of one.
constexpr std::int64_t kPrefillTokensPerSequence = 128;
constexpr std::int64_t kMostSequences = 256;
constexpr std::size_t kRowsOfPack = 128;

struct Prompt {
  Ids ids;
  bool truncated = false;
};

/// Most tokens of a prompt, if there is a limit.
std::optional<std::int64_t> prompt_limit(const ModelSession& session,
                                         const GenerationRule& rule) {
  if (rule.prompt_tokens) return rule.prompt_tokens;
  if (!session.max_len) return std::nullopt;
  const std::int64_t left = *session.max_len - rule.max_new_tokens;
  if (left < 1) {
    throw Error(concat("--max-len is ", *session.max_len,
                       ", which leaves no "
                       "room for a prompt before ",
                       rule.max_new_tokens, " new tokens; use more, or none"),
                ExitCode::kUsage);
  }
  return left;
}

/// Joined as texts, so that the cut may fall inside a word or a character.
std::string both_ends(const tokenizer::Tokenizer& tokenizer, const Ids& ids,
                      std::int64_t limit) {
  const auto half = static_cast<std::size_t>(limit / 2);
  const std::span<const std::int32_t> all(ids);
  return tokenizer.decode(all.first(half)) + tokenizer.decode(all.last(half));
}

class PromptEncoder {
 public:
  PromptEncoder(const tokenizer::Tokenizer& tokenizer,
                const RequestBatch& batch, std::optional<std::int64_t> limit)
      : tokenizer_(tokenizer), batch_(batch), limit_(limit) {}

  Prompt operator()(const Request& request) const {
    Prompt prompt{encode(request.context)};
    if (prompt.ids.empty()) {
      throw Error(concat(request.place,
                         ": the prompt gives no token with this tokenizer; "
                         "expected text to continue"),
                  ExitCode::kBadInput);
    }
    const auto size = static_cast<std::int64_t>(prompt.ids.size());
    if (!limit_ || size <= *limit_) return prompt;
    prompt.truncated = true;
    switch (batch_.generation.truncation) {
      case Truncation::kLeft:
        prompt.ids.erase(prompt.ids.begin(), prompt.ids.end() - *limit_);
        break;
      case Truncation::kRight:
        prompt.ids.resize(static_cast<std::size_t>(*limit_));
        break;
      case Truncation::kMiddle:
        prompt.ids = encode(both_ends(tokenizer_, prompt.ids, *limit_));
        break;
    }
    return prompt;
  }

 private:
  Ids encode(const std::string& text) const {
    Ids ids = tokenizer_.encode(text);
    const auto bos = tokenizer_.bos_id();
    const bool there = bos && !ids.empty() && ids.front() == *bos;
    if (batch_.bos && bos && !there) ids.insert(ids.begin(), *bos);
    return ids;
  }

  const tokenizer::Tokenizer& tokenizer_;
  const RequestBatch& batch_;
  const std::optional<std::int64_t> limit_;
};

/// The new tokens alone, up to the first stop string.
std::string output_text(const tokenizer::Tokenizer& tokenizer,
                        const GenerationRule& rule, const Ids& ids) {
  std::string text = tokenizer.decode(ids);
  const std::span<const std::int32_t> free = std::span(ids).first(
      std::min(ids.size(), static_cast<std::size_t>(rule.tokens_before_stop)));
  const std::size_t from = std::min(text.size(), tokenizer.decode(free).size());
  std::size_t end = text.size();
  for (const std::string& stop : rule.stops) {
    end = std::min(end, text.find(stop, from));
  }
  text.resize(end);
  return text;
}

/// Rows by the length of their prompts, longest first: those of a pack are
/// about as long, and one that is too long for the memory shows at once.
std::vector<Pack> packs_of(const RequestBatch& batch) {
  std::vector<std::size_t> rows(batch.requests.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) {
    return batch.requests[a].context.size() > batch.requests[b].context.size();
  });
  std::vector<Pack> packs;
  for (std::size_t begin = 0; begin < rows.size(); begin += kRowsOfPack) {
    const std::size_t end = std::min(rows.size(), begin + kRowsOfPack);
    packs.emplace_back(rows.begin() + static_cast<std::ptrdiff_t>(begin),
                       rows.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return packs;
}

class GenerationRun : public BatchRun {
 public:
  GenerationRun(const ModelSession& session, const RequestBatch& batch)
      : session_(session),
        batch_(batch),
        packs_(packs_of(batch)),
        encode_(session.need_tokenizer(), batch,
                prompt_limit(session, batch.generation)) {
    options_.max_new_tokens = batch.generation.max_new_tokens;
    options_.batch =
        std::clamp(session.batch_tokens / kPrefillTokensPerSequence,
                   std::int64_t{1}, kMostSequences);
    options_.prefill_tokens = session.batch_tokens;
    options_.end_ids = generate::end_ids(session.need_tokenizer());
    options_.usable_ids = session.need_tokenizer().vocab_size();
  }

  const std::vector<Pack>& packs() const override { return packs_; }

  void answer(std::size_t pack, const AnswerDone& done,
              const WorkDone& work) override {
    const Pack& rows = packs_[pack];
    std::vector<generate::Sequence> sequences;
    std::vector<bool> truncated;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      Prompt prompt = encode_(batch_.requests[rows[i]]);
      sequences.push_back(sequence(i, std::move(prompt.ids)));
      truncated.push_back(prompt.truncated);
    }
    generate::Listener listener;
    listener.on_finish = [&](const generate::Sequence& s) {
      const auto i = static_cast<std::size_t>(s.at.index);
      done(rows[i], answer_of(s, truncated[i]));
      work(1);
    };
    generate::run(session_.trained.model, options_, sequences, listener,
                  [] { return false; });
  }

 private:
  generate::Sequence sequence(std::size_t index, Ids prompt) const {
    const GenerationRule& rule = batch_.generation;
    generate::Sequence s{
        {},
        generate::TextStream(session_.need_tokenizer(), rule.stops, {},
                             rule.tokens_before_stop)};
    s.at.index = index;
    s.at.feed = std::move(prompt);
    return s;
  }

  Answer answer_of(const generate::Sequence& s, bool truncated) const {
    Answer answer;
    answer.tokens = std::ssize(s.ids);
    answer.truncated = truncated;
    Ids ids = s.ids;
    if (s.at.finish == generate::Finish::kEnd) ids.pop_back();
    answer.output =
        output_text(session_.need_tokenizer(), batch_.generation, ids);
    return answer;
  }

  const ModelSession& session_;
  const RequestBatch& batch_;
  const std::vector<Pack> packs_;
  const PromptEncoder encode_;
  generate::GeneratorOptions options_;
};

}  // namespace

std::unique_ptr<BatchRun> generation_run(const ModelSession& session,
                                         const RequestBatch& batch) {
  return std::make_unique<GenerationRun>(session, batch);
}

}  // namespace osdn::eval
