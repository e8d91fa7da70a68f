#include "linear_cross_entropy_cuda.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "cuda_call.h"
#include "differentiable.h"
#include "kernels/cross_entropy/cross_entropy.cuh"
#include "osdn/ops/linear_cross_entropy.h"

namespace osdn::ops {

static_assert(kNoLabel == kernels::kNoLabel);

namespace {

/// grad_weight (fp32) += d^T h.
void add_product(at::Tensor& grad_weight, const at::Tensor& d,
                 const at::Tensor& h) {
  if (h.scalar_type() == at::kFloat) {
    grad_weight.addmm_(d.t(), h);
  } else {
    at::addmm_out(grad_weight, grad_weight, d.t(), h, at::kFloat);
  }
}

/// saved: the gradients of hidden and of weight, for a loss of weight one.
Tensors loss_backward(const BackwardCall& call) {
  const at::Tensor factor = call.grad_outputs[0].to(at::kFloat);
  return {call.saved[0].mul(factor), call.saved[1].mul(factor)};
}

}  // namespace

at::Tensor linear_cross_entropy_cuda(const at::Tensor& hidden,
                                     const at::Tensor& weight,
                                     const at::Tensor& given_labels,
                                     std::int64_t step, bool want_gradient) {
  return differentiable({hidden, weight}, [&]() -> ForwardResult {
    const at::Tensor labels = given_labels.contiguous();
    const std::int64_t T = hidden.size(0);
    const std::int64_t vocab = weight.size(0);
    at::Tensor total = at::zeros({}, hidden.options().dtype(at::kDouble));
    const at::TensorOptions fp32 = hidden.options().dtype(at::kFloat);
    const at::Tensor losses = at::empty({std::min(step, T)}, fp32);
    const at::Tensor logits =
        at::empty({std::min(step, T), vocab}, hidden.options());
    at::Tensor grad_hidden, grad_weight;
    if (want_gradient) {
      grad_hidden = at::empty_like(hidden);
      grad_weight = at::zeros({vocab, weight.size(1)}, fp32);
    }
    for (std::int64_t t = 0; t < T; t += step) {
      const std::int64_t rows = std::min(step, T - t);
      const at::Tensor h = hidden.narrow(0, t, rows);
      const at::Tensor y = labels.narrow(0, t, rows);
      at::Tensor d = logits.narrow(0, 0, rows);
      at::mm_out(d, h, weight.t());
      kernels::CrossEntropyParams p;
      p.rows = rows;
      p.vocab = vocab;
      p.element = element_of(d);
      p.logits = pointer(d);
      p.labels = y.const_data_ptr<std::int64_t>();
      p.write_gradient = want_gradient;
      p.loss = floats(losses);
      p.loss_sum = total.mutable_data_ptr<double>();
      kernels::cross_entropy(p, current_stream(d));
      if (!want_gradient) continue;
      at::Tensor grad_rows = grad_hidden.narrow(0, t, rows);
      at::mm_out(grad_rows, d, weight);
      add_product(grad_weight, d, h);
    }
    return {{total}, {grad_hidden, grad_weight}, loss_backward};
  })[0];
}

}  // namespace osdn::ops
