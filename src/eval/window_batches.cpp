#include "osdn/eval/window_batches.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <span>
#include <utility>

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

/// Takes the rows of requests first, first + 1, ...; `state` is carried
/// between the pieces of one long request and null otherwise.
using TakeRows = std::function<void(const Rows& rows, std::size_t first,
                                    model::ModelState* state)>;

void for_each_batch(const std::vector<WindowRequest>& requests,
                    std::int64_t batch_tokens, const TokensDone& done,
                    const TakeRows& take) {
  std::int64_t tokens_done = 0;
  const auto finish = [&](const Rows& rows, std::size_t first,
                          model::ModelState* state) {
    take(rows, first, state);
    tokens_done += static_cast<std::int64_t>(rows.input.size());
    done(tokens_done);
  };
  for (std::size_t first = 0; first < requests.size();) {
    const std::int64_t first_length = length(requests[first]);
    if (first_length > batch_tokens) {
      model::ModelState state;
      for (std::int64_t begin = 0; begin < first_length;
           begin += batch_tokens) {
        Rows rows;
        rows.add(requests[first], begin,
                 std::min(begin + batch_tokens, first_length));
        finish(rows, first, &state);
      }
      ++first;
      continue;
    }
    Rows rows;
    std::size_t last = first;
    while (last < requests.size() &&
           rows.cu_seqlens.back() + length(requests[last]) <= batch_tokens) {
      rows.add(requests[last], 0, length(requests[last]));
      ++last;
    }
    finish(rows, first, nullptr);
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

std::vector<double> score_requests(const model::LanguageModel& model,
                                   const std::vector<WindowRequest>& requests,
                                   std::int64_t batch_tokens,
                                   const TokensDone& done) {
  std::vector<double> sums(requests.size());
  for_each_batch(
      requests, batch_tokens, done,
      [&](const Rows& rows, std::size_t first, model::ModelState* state) {
        const model::Batch batch = batch_of(rows, model.device());
        const at::Tensor log_prob =
            model.token_scores(batch, state).log_prob.to(at::kCPU).contiguous();
        const double* values = log_prob.data_ptr<double>();
        for (std::int64_t n = 0; n < batch.documents.count(); ++n) {
          double& sum = sums[first + static_cast<std::size_t>(n)];
          for (std::int64_t t = batch.documents.begin(n);
               t < batch.documents.end(n); ++t) {
            sum += values[t];
          }
        }
      });
  return sums;
}

void run_requests(const model::LanguageModel& model,
                  const std::vector<WindowRequest>& requests,
                  std::int64_t batch_tokens, const TokensDone& done) {
  const at::NoGradGuard no_grad;
  for_each_batch(requests, batch_tokens, done,
                 [&](const Rows& rows, std::size_t, model::ModelState* state) {
                   const model::Batch batch = batch_of(rows, model.device());
                   model.hidden(batch.tokens, batch.documents, state);
                 });
}

}  // namespace osdn::eval
