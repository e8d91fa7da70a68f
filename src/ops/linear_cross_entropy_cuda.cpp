#include "linear_cross_entropy_cuda.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "cuda_call.h"
#include "kernels/cross_entropy/cross_entropy.cuh"
#include "osdn/ops/linear_cross_entropy.h"

namespace osdn::ops {

static_assert(kNoLabel == kernels::kNoLabel);

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// grad_weight (fp32) += d^T h.
void add_product(at::Tensor& grad_weight, const at::Tensor& d,
                 const at::Tensor& h) {
  if (h.scalar_type() == at::kFloat) {
    grad_weight.addmm_(d.t(), h);
  } else {
    at::addmm_out(grad_weight, grad_weight, d.t(), h, at::kFloat);
  }
}

class LinearCrossEntropyCudaFunction
    : public torch::autograd::Function<LinearCrossEntropyCudaFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& hidden,
                            const at::Tensor& weight, const at::Tensor& labels,
                            std::int64_t step, bool want_gradient) {
    const std::int64_t T = hidden.size(0);
    const std::int64_t vocab = weight.size(0);
    at::Tensor total = at::zeros({}, hidden.options().dtype(at::kDouble));
    const at::TensorOptions fp32 = hidden.options().dtype(at::kFloat);
    const at::Tensor losses = at::empty({std::min(step, T)}, fp32);
    at::Tensor logits = at::empty({std::min(step, T), vocab}, hidden.options());
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
    if (want_gradient) ctx->save_for_backward({grad_hidden, grad_weight});
    return total;
  }

  static variable_list backward(AutogradContext* ctx,
                                const variable_list& grad_outputs) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor factor = grad_outputs[0].to(at::kFloat);
    return {saved[0].mul(factor), saved[1].mul(factor), at::Tensor(),
            at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor linear_cross_entropy_cuda(const at::Tensor& hidden,
                                     const at::Tensor& weight,
                                     const at::Tensor& labels,
                                     std::int64_t chunk_tokens,
                                     bool want_gradient) {
  return LinearCrossEntropyCudaFunction::apply(
      hidden, weight, labels.contiguous(), chunk_tokens, want_gradient);
}

}  // namespace osdn::ops
