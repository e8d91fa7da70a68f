#pragma once
// Windows of documents, packed side by side into batches. Packing changes no
// score: every window starts from the initial state. A window longer than a
// batch is run in pieces, the state carried, so memory does not grow with it.

#include <cstdint>
#include <functional>
#include <vector>

#include "osdn/eval/rolling_windows.h"
#include "osdn/model/language_model.h"

namespace osdn::eval {

/// One forward pass over a document's window.
struct WindowRequest {
  std::int64_t document = 0;
  std::vector<std::int32_t> input;  ///< prefix token included
  /// Label of each input position, ops::kNoLabel where none is scored.
  std::vector<std::int64_t> labels;
};

/// The windows of a document's tokens as requests.
std::vector<WindowRequest> window_requests(
    std::int64_t document, const std::vector<std::int32_t>& tokens,
    std::int32_t prefix, std::optional<std::int64_t> max_len);

/// Sum of the labels' log-likelihoods of each request, in order.
std::vector<double> score_requests(
    const model::LanguageModel& model,
    const std::vector<WindowRequest>& requests, std::int64_t batch_tokens,
    const std::function<void(std::int64_t tokens)>& progress);

}  // namespace osdn::eval
