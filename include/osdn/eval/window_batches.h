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

/// One forward pass over a document's window.
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

/// Sum of the labels' log-likelihoods of each request, in order.
std::vector<double> score_requests(const model::LanguageModel& model,
                                   const std::vector<WindowRequest>& requests,
                                   std::int64_t batch_tokens,
                                   const TokensDone& done);

/// Forward passes without a head, for the model's observer.
void run_requests(const model::LanguageModel& model,
                  const std::vector<WindowRequest>& requests,
                  std::int64_t batch_tokens, const TokensDone& done);

}  // namespace osdn::eval
