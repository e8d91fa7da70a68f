#include <algorithm>
#include <utility>

#include "osdn/eval/likelihood_packs.h"
#include "osdn/eval/model_runs.h"
#include "osdn/eval/window_batches.h"
#include "osdn/model/model_state.h"

namespace osdn::eval {
namespace {

void no_progress(std::int64_t) {}

/// What a document carries: states of the delta rule, in fp32, and keys and
/// values of softmax layers for each token.
PackLimits limits_of(const ModelSession& session) {
  const config::ModelConfig& config = session.trained.config.model;
  const std::int64_t softmax = config.softmax_layers();
  PackLimits limits;
  limits.tokens = session.batch_tokens;
  if (softmax < config.num_layers) {
    limits.bytes_per_state = (config.num_layers - softmax) * 4 *
                             config.value_heads() * config.key_width() *
                             config.value_width();
  }
  if (softmax > 0) {
    limits.bytes_per_token =
        softmax * 2 * 4 * config.softmax_kv_heads() * config.softmax_head_dim();
  }
  return limits;
}

/// Input positions [begin, end) of a row.
WindowRequest piece(const TokenRow& row, std::int64_t begin, std::int64_t end) {
  WindowRequest request;
  request.input.assign(row.tokens.begin() + begin, row.tokens.begin() + end);
  for (std::int64_t i = begin; i < end; ++i) {
    request.labels.push_back(i >= row.first_scored
                                 ? row.tokens[static_cast<std::size_t>(i + 1)]
                                 : ops::kNoLabel);
  }
  return request;
}

class LikelihoodRun : public BatchRun {
 public:
  LikelihoodRun(const ModelSession& session, const RequestBatch& batch)
      : session_(session) {
    for (const Request& request : batch.requests) {
      rows_.push_back(token_row(session.need_tokenizer(), request, batch.bos,
                                session.prefix, session.max_len));
    }
    groups_ = pack_groups(row_groups(batch, rows_), rows_, limits_of(session));
    for (const auto& groups : groups_) {
      Pack pack;
      for (const RowGroup& group : groups) {
        pack.insert(pack.end(), group.rows.begin(), group.rows.end());
      }
      packs_.push_back(std::move(pack));
    }
  }

  const std::vector<Pack>& packs() const override { return packs_; }

  void answer(std::size_t pack, const AnswerDone& done,
              const WorkDone& work) override {
    std::vector<WindowRequest> beginnings, rest;
    std::vector<std::int64_t> beginning_of;
    std::vector<std::size_t> rows;
    for (const RowGroup& group : groups_[pack]) {
      if (group.shared > 0) {
        beginnings.push_back(piece(rows_[group.rows.front()], 0, group.shared));
      }
      for (const std::size_t row : group.rows) {
        if (rows_[row].input_length() == 0) {
          done(row, answer_of(row, {}));
          continue;
        }
        rows.push_back(row);
        rest.push_back(
            piece(rows_[row], group.shared, rows_[row].input_length()));
        beginning_of.push_back(std::ssize(beginnings) - 1);
      }
    }
    const std::vector<RowScore> found = scores(beginnings, beginning_of, rest);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      done(rows[i], answer_of(rows[i], found[i]));
    }
    work(std::ssize(packs_[pack]));
  }

 private:
  std::vector<RowScore> scores(const std::vector<WindowRequest>& beginnings,
                               const std::vector<std::int64_t>& beginning_of,
                               const std::vector<WindowRequest>& rest) const {
    const model::LanguageModel& model = session_.trained.model;
    if (beginnings.empty()) {
      return score_requests(model, rest, session_.batch_tokens, no_progress);
    }
    const model::ModelState start = model::select_documents(
        states_after(model, beginnings, session_.batch_tokens, no_progress),
        beginning_of);
    return score_requests(model, rest, session_.batch_tokens, no_progress,
                          &start);
  }

  Answer answer_of(std::size_t index, const RowScore& score) const {
    const TokenRow& row = rows_[index];
    Answer answer;
    answer.log_likelihood = score.log_likelihood;
    answer.greedy = score.greedy;
    answer.tokens = row.input_length() - row.first_scored;
    answer.truncated = row.truncated;
    answer.empty_continuation = row.empty_continuation;
    return answer;
  }

  const ModelSession& session_;
  std::vector<TokenRow> rows_;
  std::vector<std::vector<RowGroup>> groups_;
  std::vector<Pack> packs_;
};

}  // namespace

std::unique_ptr<BatchRun> likelihood_run(const ModelSession& session,
                                         const RequestBatch& batch) {
  return std::make_unique<LikelihoodRun>(session, batch);
}

}  // namespace osdn::eval
