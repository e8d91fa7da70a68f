#include "osdn/eval/window_batches.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <span>

namespace osdn::eval {
namespace {

std::int64_t length(const WindowRequest& request) {
  return static_cast<std::int64_t>(request.input.size());
}

at::Tensor token_tensor(std::span<const std::int32_t> ids, at::Device device) {
  at::Tensor tensor =
      at::empty({static_cast<std::int64_t>(ids.size())}, at::kLong);
  std::copy(ids.begin(), ids.end(), tensor.data_ptr<std::int64_t>());
  return tensor.to(device);
}

at::Tensor label_tensor(std::span<const std::int64_t> labels,
                        at::Device device) {
  at::Tensor tensor =
      at::empty({static_cast<std::int64_t>(labels.size())}, at::kLong);
  std::copy(labels.begin(), labels.end(), tensor.data_ptr<std::int64_t>());
  return tensor.to(device);
}

/// One request that does not fit a batch, in pieces of batch_tokens.
double score_long(const model::LanguageModel& model,
                  const WindowRequest& request, std::int64_t batch_tokens) {
  model::ModelState state;
  double sum = 0;
  for (std::int64_t t = 0; t < length(request); t += batch_tokens) {
    const std::int64_t n = std::min(batch_tokens, length(request) - t);
    const auto first = static_cast<std::size_t>(t);
    const auto count = static_cast<std::size_t>(n);
    const model::Batch batch{
        token_tensor(std::span(request.input).subspan(first, count),
                     model.device()),
        label_tensor(std::span(request.labels).subspan(first, count),
                     model.device()),
        ops::Documents::single(n)};
    sum += model.token_scores(batch, &state).log_prob.sum().item<double>();
  }
  return sum;
}

/// Requests [first, last) as one packed batch.
void score_packed(const model::LanguageModel& model,
                  const std::vector<WindowRequest>& requests, std::size_t first,
                  std::size_t last, std::vector<double>& sums) {
  std::vector<std::int32_t> input;
  std::vector<std::int64_t> labels;
  std::vector<std::int64_t> cu_seqlens{0};
  for (std::size_t i = first; i < last; ++i) {
    input.insert(input.end(), requests[i].input.begin(),
                 requests[i].input.end());
    labels.insert(labels.end(), requests[i].labels.begin(),
                  requests[i].labels.end());
    cu_seqlens.push_back(static_cast<std::int64_t>(input.size()));
  }
  const model::Batch batch{token_tensor(input, model.device()),
                           label_tensor(labels, model.device()),
                           ops::Documents(cu_seqlens)};
  const at::Tensor log_prob =
      model.token_scores(batch).log_prob.to(at::kCPU).contiguous();
  const double* values = log_prob.data_ptr<double>();
  for (std::size_t i = first; i < last; ++i) {
    double sum = 0;
    for (std::int64_t t = cu_seqlens[i - first]; t < cu_seqlens[i - first + 1];
         ++t) {
      sum += values[t];
    }
    sums[i] = sum;
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

std::vector<double> score_requests(
    const model::LanguageModel& model,
    const std::vector<WindowRequest>& requests, std::int64_t batch_tokens,
    const std::function<void(std::int64_t tokens)>& progress) {
  std::vector<double> sums(requests.size());
  std::int64_t done = 0;
  for (std::size_t first = 0; first < requests.size();) {
    std::size_t last = first;
    std::int64_t tokens = 0;
    while (last < requests.size() &&
           (last == first || tokens + length(requests[last]) <= batch_tokens)) {
      tokens += length(requests[last++]);
    }
    if (tokens > batch_tokens) {
      sums[first] = score_long(model, requests[first], batch_tokens);
    } else {
      score_packed(model, requests, first, last, sums);
    }
    done += tokens;
    progress(done);
    first = last;
  }
  return sums;
}

}  // namespace osdn::eval
