#include <utility>

#include "osdn/eval/model_runs.h"
#include "osdn/eval/window_batches.h"

namespace osdn::eval {
namespace {

/// Passes of a pack; its last one is only as full as its documents make it.
constexpr std::int64_t kPassesAPack = 4;

class RollingRun : public BatchRun {
 public:
  RollingRun(const ModelSession& session, const RequestBatch& batch)
      : session_(session) {
    std::int64_t tokens_in_pack = 0;
    for (std::size_t row = 0; row < batch.requests.size(); ++row) {
      std::vector<std::int32_t> tokens =
          session.need_tokenizer().encode(batch.requests[row].continuation);
      if (batch.bos) tokens.insert(tokens.begin(), session.prefix);
      scored_.push_back(std::ssize(tokens));
      windows_.push_back(window_requests(
          static_cast<std::int64_t>(row), tokens, session.prefix,
          session.rolling_full ? std::nullopt : session.max_len));
      if (packs_.empty() ||
          tokens_in_pack >= kPassesAPack * session.batch_tokens) {
        packs_.emplace_back();
        tokens_in_pack = 0;
      }
      packs_.back().push_back(row);
      tokens_in_pack += work_of(row);
    }
  }

  const std::vector<Pack>& packs() const override { return packs_; }
  std::string unit() const override { return " tokens"; }
  std::int64_t work_of(std::size_t row) const override {
    std::int64_t tokens = 0;
    for (const WindowRequest& window : windows_[row]) {
      tokens += std::ssize(window.input);
    }
    return tokens;
  }

  void answer(std::size_t pack, const AnswerDone& done,
              const WorkDone& work) override {
    std::vector<WindowRequest> windows;
    for (const std::size_t row : packs_[pack]) {
      windows.insert(windows.end(), windows_[row].begin(), windows_[row].end());
    }
    std::int64_t before = 0;
    const auto scores =
        score_requests(session_.trained.model, windows, session_.batch_tokens,
                       [&](std::int64_t tokens) {
                         work(tokens - std::exchange(before, tokens));
                       });
    std::size_t next = 0;
    for (const std::size_t row : packs_[pack]) {
      Answer answer;
      answer.greedy = true;
      answer.tokens = scored_[row];
      for (std::size_t i = 0; i < windows_[row].size(); ++i, ++next) {
        answer.log_likelihood += scores[next].log_likelihood;
        answer.greedy = answer.greedy && scores[next].greedy;
      }
      done(row, std::move(answer));
    }
  }

 private:
  const ModelSession& session_;
  std::vector<std::int64_t> scored_;  // tokens of each document
  std::vector<std::vector<WindowRequest>> windows_;
  std::vector<Pack> packs_;
};

}  // namespace

std::unique_ptr<BatchRun> rolling_run(const ModelSession& session,
                                      const RequestBatch& batch) {
  return std::make_unique<RollingRun>(session, batch);
}

}  // namespace osdn::eval
