#include "position_observer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace osdn::eval {

PositionObserver::PositionObserver(std::int64_t buckets,
                                   std::int64_t positions_a_bucket)
    : buckets_(static_cast<std::size_t>(buckets)), width_(positions_a_bucket) {}

void PositionObserver::on_attention(const layers::AttentionTrace& trace) {
  if (!trace.d0.defined()) return;
  const at::NoGradGuard no_grad;
  const at::Tensor d = ops::preconditioner_trace(
      {trace.k, trace.beta, trace.r, trace.d0}, trace.documents, trace.options);
  const at::Tensor on_box =
      d.le(trace.options.d_min).logical_or(d.ge(trace.options.d_max));
  for (std::int64_t t = 0; t < d.size(0);) {
    const std::int64_t position = offset_ + t;
    const std::int64_t count =
        std::min(d.size(0) - t, width_ - position % width_);
    Bucket& bucket = buckets_.at(static_cast<std::size_t>(position / width_));
    const at::Tensor piece = d.narrow(0, t, count);
    bucket.channels += piece.numel();
    bucket.d += piece.sum(at::kDouble).item<double>();
    bucket.on_box += on_box.narrow(0, t, count).sum().item<std::int64_t>();
    t += count;
  }
}

}  // namespace osdn::eval
