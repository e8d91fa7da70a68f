#include "osdn/ops/linear_cross_entropy.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <sstream>

#include "differentiable.h"
#include "linear_cross_entropy_cuda.h"
#include "osdn/core/error.h"
#include "tensor_check.h"

namespace osdn::ops {
namespace {

constexpr const char* kName = "linear_cross_entropy";
/// Logits held at once: 16 Mi elements are 64 MiB in fp32 on the CPU; a GPU
/// wants rows enough to fill it, 256 Mi elements are 512 MiB in bf16.
constexpr std::int64_t kMaxLogits = std::int64_t{1} << 24;
constexpr std::int64_t kMaxLogitsOnGpu = std::int64_t{1} << 28;

void check_inputs(const at::Tensor& hidden, const at::Tensor& weight,
                  const at::Tensor& labels) {
  if (!hidden.defined() || hidden.dim() != 2 || !weight.defined() ||
      weight.dim() != 2) {
    throw Error(
        "linear_cross_entropy: hidden [T, h] and weight [vocab, h] are "
        "needed");
  }
  check_tensor(kName, "weight", weight, {weight.size(0), hidden.size(1)},
               hidden);
  if (!labels.defined() || labels.scalar_type() != at::kLong ||
      labels.dim() != 1 || labels.size(0) != hidden.size(0)) {
    throw Error("linear_cross_entropy: labels must be int64 [" +
                std::to_string(hidden.size(0)) + "]");
  }
  // A look at the labels would make the host wait for the GPU; there the kernel
  // answers a bad one with NaN.
  if (labels.is_cuda()) return;
  const at::Tensor bad =
      (labels.ne(kNoLabel))
          .logical_and(labels.lt(0).logical_or(labels.ge(weight.size(0))));
  if (bad.any().item<bool>()) {
    const std::int64_t position = bad.nonzero()[0][0].item<std::int64_t>();
    throw Error("linear_cross_entropy: label " +
                std::to_string(labels[position].item<std::int64_t>()) +
                " at position " + std::to_string(position) +
                " is outside the vocabulary of " +
                std::to_string(weight.size(0)) + " (or " +
                std::to_string(kNoLabel) + " for none)");
  }
}

std::int64_t chunk_length(const at::Tensor& weight, std::int64_t asked) {
  return asked > 0 ? asked
                   : std::max<std::int64_t>(
                         1, (weight.is_cuda() ? kMaxLogitsOnGpu : kMaxLogits) /
                                weight.size(0));
}

/// -log p of each labelled row in float64; leaves log-softmax in `logits`.
at::Tensor negative_log_likelihood(at::Tensor& logits,
                                   const at::Tensor& labels) {
  logits = at::log_softmax(logits, 1);
  const at::Tensor valid = labels.ne(kNoLabel);
  const at::Tensor picked =
      logits.gather(1, labels.clamp_min(0).unsqueeze(1)).squeeze(1);
  return picked.to(at::kDouble).neg().masked_fill(valid.logical_not(), 0.0);
}

/// saved: the gradients of hidden and of weight, for a loss of weight one.
Tensors loss_backward(const BackwardCall& call) {
  const at::Tensor factor =
      call.grad_outputs[0].to(call.saved[0].scalar_type());
  return {call.saved[0] * factor, call.saved[1] * factor};
}

ForwardResult loss_forward(const at::Tensor& hidden, const at::Tensor& weight,
                           const at::Tensor& labels, std::int64_t step,
                           bool want_gradient) {
  const std::int64_t T = hidden.size(0);
  at::Tensor total = at::zeros({}, hidden.options().dtype(at::kDouble));
  at::Tensor grad_hidden, grad_weight;
  if (want_gradient) {
    grad_hidden = at::empty_like(hidden);
    grad_weight = at::zeros_like(weight);
  }
  for (std::int64_t t = 0; t < T; t += step) {
    const std::int64_t rows = std::min(step, T - t);
    const at::Tensor h = hidden.narrow(0, t, rows);
    const at::Tensor y = labels.narrow(0, t, rows);
    at::Tensor logits = at::mm(h, weight.t());
    total += negative_log_likelihood(logits, y).sum();
    if (!want_gradient) continue;
    // softmax - onehot, in place; rows without a label have none.
    at::Tensor d = logits.exp_();
    const at::Tensor valid =
        y.ne(kNoLabel).to(hidden.scalar_type()).unsqueeze(1);
    d.mul_(valid);
    d.scatter_add_(1, y.clamp_min(0).unsqueeze(1), valid.neg());
    at::Tensor grad_rows = grad_hidden.narrow(0, t, rows);
    at::mm_out(grad_rows, d, weight);
    grad_weight.addmm_(d.t(), h);
  }
  return {{total}, {grad_hidden, grad_weight}, loss_backward};
}

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& hidden,
                                const at::Tensor& weight,
                                const at::Tensor& labels,
                                std::int64_t chunk_tokens) {
  check_inputs(hidden, weight, labels);
  const bool want_gradient = wants_gradient({hidden, weight});
  const std::int64_t step = chunk_length(weight, chunk_tokens);
  if (hidden.is_cuda()) {
    return linear_cross_entropy_cuda(hidden, weight, labels, step,
                                     want_gradient);
  }
  return differentiable({hidden, weight}, [&] {
    return loss_forward(hidden, weight, labels, step, want_gradient);
  })[0];
}

at::Tensor linear_logits(const at::Tensor& hidden, const at::Tensor& weight) {
  if (hidden.scalar_type() != at::kBFloat16) return at::linear(hidden, weight);
  return at::mm(hidden, weight.t(), at::kFloat);
}

TokenScores linear_token_scores(const at::Tensor& hidden,
                                const at::Tensor& weight,
                                const at::Tensor& labels,
                                std::int64_t chunk_tokens) {
  check_inputs(hidden, weight, labels);
  const at::NoGradGuard no_grad;
  const std::int64_t T = hidden.size(0);
  const std::int64_t step = chunk_length(weight, chunk_tokens);
  TokenScores scores{at::zeros({T}, hidden.options().dtype(at::kDouble)),
                     at::zeros({T}, hidden.options().dtype(at::kBool))};
  for (std::int64_t t = 0; t < T; t += step) {
    const std::int64_t rows = std::min(step, T - t);
    const at::Tensor y = labels.narrow(0, t, rows);
    at::Tensor logits = linear_logits(hidden.narrow(0, t, rows), weight);
    // argmax breaks ties towards the lowest index only where that is asked
    // for; the first position of the maximum is found explicitly.
    const at::Tensor is_max = logits.eq(logits.amax(1, true));
    const at::Tensor first = is_max.to(at::kByte).argmax(1);
    scores.greedy.narrow(0, t, rows).copy_(first.eq(y));
    scores.log_prob.narrow(0, t, rows)
        .copy_(negative_log_likelihood(logits, y).neg());
  }
  return scores;
}

}  // namespace osdn::ops
