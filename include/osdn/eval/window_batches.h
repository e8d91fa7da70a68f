#pragma once
// Windows of documents, packed side by side into batches. Packing changes no
// score: every window starts from the initial state. A window longer than a
// batch is run in pieces, the state carried, so memory does not grow with it.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "osdn/eval/rolling_windows.h"
#include "osdn/model/language_model.h"

namespace osdn::eval {

/// Tokens that a model reads in one piece, and what is scored of them.
struct WindowRequest {
  std::int64_t document = 0;
  std::vector<std::int32_t> input{};  ///< prefix token included
  /// Label of each input position, ops::kNoLabel where none is scored.
  std::vector<std::int64_t> labels{};
};

/// The rolling windows of a document's tokens.
std::vector<WindowRequest> window_requests(
    std::int64_t document, const std::vector<std::int32_t>& tokens,
    std::int32_t prefix, std::optional<std::int64_t> max_len);

/// Prefix and tokens in disjoint blocks of max_len, nothing to score: each
/// position once, for what an observer sees.
std::vector<WindowRequest> block_requests(
    std::int64_t document, const std::vector<std::int32_t>& tokens,
    std::int32_t prefix, std::optional<std::int64_t> max_len);

/// Called with the tokens done so far.
using TokensDone = std::function<void(std::int64_t tokens)>;

/// What one pass holds: requests first, first + 1, ..., whole or, where one is
/// longer than a batch, a piece of it that begins at input position `offset`.
struct PassPlace {
  std::size_t first = 0;
  std::int64_t offset = 0;
};

/// Of a request's labels.
struct RowScore {
  double log_likelihood = 0;  ///< natural log, summed
  bool greedy = true;         ///< every label is the most probable token
};

/// The scores of the requests, in order. With `start`, whose documents are one
/// for each request, they go on from there.
std::vector<RowScore> score_requests(const model::LanguageModel& model,
                                     const std::vector<WindowRequest>& requests,
                                     std::int64_t batch_tokens,
                                     const TokensDone& done,
                                     const model::ModelState* start = nullptr);

/// One label's: the input position that predicts it, log p in natural log, and
/// whether it is the most probable token.
struct TokenScore {
  std::size_t request = 0;
  std::int64_t position = 0;
  double log_prob = 0;
  bool greedy = false;
};

/// The same label by label; a model's observer can be told where each pass
/// stands.
void score_tokens(const model::LanguageModel& model,
                  const std::vector<WindowRequest>& requests,
                  std::int64_t batch_tokens, const TokensDone& done,
                  const std::function<void(const TokenScore&)>& take,
                  const std::function<void(const PassPlace&)>& before_pass = {},
                  const model::ModelState* start = nullptr);

/// Forward passes without a head, for the model's observer.
void run_requests(
    const model::LanguageModel& model,
    const std::vector<WindowRequest>& requests, std::int64_t batch_tokens,
    const TokensDone& done,
    const std::function<void(const PassPlace&)>& before_pass = {});

/// The same for the state behind each request, documents in their order.
model::ModelState states_after(const model::LanguageModel& model,
                               const std::vector<WindowRequest>& requests,
                               std::int64_t batch_tokens,
                               const TokensDone& done);

}  // namespace osdn::eval
