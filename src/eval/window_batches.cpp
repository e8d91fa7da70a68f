#include "osdn/eval/window_batches.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <span>
#include <utility>

#include "osdn/model/model_state.h"
#include "osdn/ops/chunk_length.h"

namespace osdn::eval {
namespace {

std::int64_t length(const WindowRequest& request) {
  return static_cast<std::int64_t>(request.input.size());
}

/// Packed rows of several requests, or a piece of one.
struct Rows {
  std::vector<std::int64_t> input{};
  std::vector<std::int64_t> labels{};
  std::vector<std::int64_t> cu_seqlens{0};

  void add(const WindowRequest& request, std::int64_t begin, std::int64_t end) {
    input.insert(input.end(), request.input.begin() + begin,
                 request.input.begin() + end);
    labels.insert(labels.end(), request.labels.begin() + begin,
                  request.labels.begin() + end);
    cu_seqlens.push_back(static_cast<std::int64_t>(input.size()));
  }
};

model::Batch batch_of(const Rows& rows, at::Device device) {
  const auto tensor = [&](const std::vector<std::int64_t>& values) {
    return at::tensor(at::ArrayRef<std::int64_t>(values), at::kLong).to(device);
  };
  return {tensor(rows.input), tensor(rows.labels),
          ops::Documents(rows.cu_seqlens)};
}

/// One pass: rows of the requests first, first + 1, ..., and the state that the
/// pass goes on from and replaces; null: the documents' start, nothing kept.
struct Pass {
  Rows rows{};
  PassPlace place{};
  model::ModelState* state = nullptr;
};
using TakePass = std::function<void(const Pass& pass)>;

/// Whose states are carried from pass to pass.
struct Carried {
  const model::ModelState* start = nullptr;       ///< one document a request
  std::vector<model::ModelState>* end = nullptr;  ///< keeps those behind them
};

/// States of the requests [first, last), to begin with.
model::ModelState start_of(const Carried& carried, std::size_t first,
                           std::size_t last) {
  if (!carried.start) return {};
  std::vector<std::int64_t> documents;
  for (std::size_t i = first; i < last; ++i) {
    documents.push_back(static_cast<std::int64_t>(i));
  }
  return model::select_documents(*carried.start, documents);
}

void for_each_batch(const std::vector<WindowRequest>& requests,
                    std::int64_t batch_tokens, const TokensDone& done,
                    const Carried& carried, const TakePass& take) {
  std::int64_t tokens_done = 0;
  const auto finish = [&](const Pass& pass) {
    take(pass);
    tokens_done += static_cast<std::int64_t>(pass.rows.input.size());
    done(tokens_done);
  };
  for (std::size_t first = 0; first < requests.size();) {
    const std::int64_t first_length = length(requests[first]);
    std::size_t last = first + 1;
    for (std::int64_t tokens = first_length;
         last < requests.size() &&
         (tokens += length(requests[last])) <= batch_tokens;) {
      ++last;
    }
    model::ModelState state = start_of(carried, first, last);
    if (first_length > batch_tokens) {
      const std::int64_t piece = ops::whole_chunks(batch_tokens);
      for (std::int64_t begin = 0; begin < first_length; begin += piece) {
        Pass pass{{}, {first, begin}, &state};
        pass.rows.add(requests[first], begin,
                      std::min(begin + piece, first_length));
        finish(pass);
      }
    } else {
      const bool keeps = carried.start || carried.end;
      Pass pass{{}, {first, 0}, keeps ? &state : nullptr};
      for (std::size_t i = first; i < last; ++i) {
        pass.rows.add(requests[i], 0, length(requests[i]));
      }
      finish(pass);
    }
    if (carried.end) carried.end->push_back(std::move(state));
    first = last;
  }
}

}  // namespace

std::vector<WindowRequest> window_requests(
    std::int64_t document, const std::vector<std::int32_t>& tokens,
    std::int32_t prefix, std::optional<std::int64_t> max_len) {
  std::vector<WindowRequest> requests;
  const auto count = static_cast<std::int64_t>(tokens.size());
  for (const RollingWindow& window : rolling_windows(count, max_len)) {
    WindowRequest request{document, window_input(window, tokens, prefix), {}};
    for (std::int64_t p = 0; p < window.input_length(); ++p) {
      const std::int64_t token = window.input_begin + p + 1;
      request.labels.push_back(p >= window.first_logit()
                                   ? tokens[static_cast<std::size_t>(token)]
                                   : ops::kNoLabel);
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<WindowRequest> block_requests(
    std::int64_t document, const std::vector<std::int32_t>& tokens,
    std::int32_t prefix, std::optional<std::int64_t> max_len) {
  std::vector<std::int32_t> all{prefix};
  all.insert(all.end(), tokens.begin(), tokens.end());
  const auto count = static_cast<std::int64_t>(all.size());
  const std::int64_t block = max_len.value_or(count);
  std::vector<WindowRequest> requests;
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t end = std::min(begin + block, count);
    WindowRequest request{document, {all.begin() + begin, all.begin() + end}};
    request.labels.assign(request.input.size(), ops::kNoLabel);
    requests.push_back(std::move(request));
  }
  return requests;
}

void score_tokens(const model::LanguageModel& model,
                  const std::vector<WindowRequest>& requests,
                  std::int64_t batch_tokens, const TokensDone& done,
                  const std::function<void(const TokenScore&)>& take,
                  const std::function<void(const PassPlace&)>& before_pass,
                  const model::ModelState* start) {
  const at::NoGradGuard no_grad;
  const auto take_pass = [&](const Pass& pass) {
    if (before_pass) before_pass(pass.place);
    const model::Batch batch = batch_of(pass.rows, model.device());
    const ops::TokenScores found = model.token_scores(batch, pass.state);
    const at::Tensor log_prob = found.log_prob.to(at::kCPU).contiguous();
    const at::Tensor greedy = found.greedy.to(at::kCPU).contiguous();
    for (std::int64_t n = 0; n < batch.documents.count(); ++n) {
      for (std::int64_t t = batch.documents.begin(n);
           t < batch.documents.end(n); ++t) {
        if (pass.rows.labels[static_cast<std::size_t>(t)] == ops::kNoLabel) {
          continue;
        }
        take({pass.place.first + static_cast<std::size_t>(n),
              pass.place.offset + t - batch.documents.begin(n),
              log_prob.data_ptr<double>()[t], greedy.data_ptr<bool>()[t]});
      }
    }
  };
  for_each_batch(requests, batch_tokens, done, {start, nullptr}, take_pass);
}

std::vector<RowScore> score_requests(const model::LanguageModel& model,
                                     const std::vector<WindowRequest>& requests,
                                     std::int64_t batch_tokens,
                                     const TokensDone& done,
                                     const model::ModelState* start) {
  std::vector<RowScore> scores(requests.size());
  const auto add = [&](const TokenScore& token) {
    RowScore& score = scores[token.request];
    score.log_likelihood += token.log_prob;
    score.greedy = score.greedy && token.greedy;
  };
  score_tokens(model, requests, batch_tokens, done, add, {}, start);
  return scores;
}

namespace {

void run_hidden(const model::LanguageModel& model,
                const std::vector<WindowRequest>& requests,
                std::int64_t batch_tokens, const TokensDone& done,
                const Carried& carried,
                const std::function<void(const PassPlace&)>& before_pass) {
  const at::NoGradGuard no_grad;
  for_each_batch(requests, batch_tokens, done, carried, [&](const Pass& pass) {
    if (before_pass) before_pass(pass.place);
    const model::Batch batch = batch_of(pass.rows, model.device());
    model.hidden(batch.tokens, batch.documents, pass.state);
  });
}

}  // namespace

void run_requests(const model::LanguageModel& model,
                  const std::vector<WindowRequest>& requests,
                  std::int64_t batch_tokens, const TokensDone& done,
                  const std::function<void(const PassPlace&)>& before_pass) {
  run_hidden(model, requests, batch_tokens, done, {}, before_pass);
}

model::ModelState states_after(const model::LanguageModel& model,
                               const std::vector<WindowRequest>& requests,
                               std::int64_t batch_tokens,
                               const TokensDone& done) {
  std::vector<model::ModelState> states;
  run_hidden(model, requests, batch_tokens, done, {nullptr, &states}, {});
  return model::join_documents(states);
}

}  // namespace osdn::eval
