#include "ops/run_operators.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "ops/tensor_test_support.h"
#include "osdn/ops/delta_rule.h"
#include "osdn/ops/linear_cross_entropy.h"
#include "osdn/ops/preconditioner.h"
#include "osdn/ops/short_conv.h"

namespace osdn::test {
namespace {

using Shape = std::vector<std::int64_t>;

at::Tensor lay_out(const at::Tensor& x, Layout layout) {
  if (layout == Layout::kTransposed) {
    Shape order(static_cast<std::size_t>(x.dim()));
    for (std::int64_t i = 0; i < x.dim(); ++i) {
      order[static_cast<std::size_t>(i)] = x.dim() - 1 - i;
    }
    return x.permute(order).contiguous().permute(order);
  }
  if (layout == Layout::kSliced) {
    Shape shape = x.sizes().vec();
    for (std::int64_t& n : shape) n = 2 * n + 3;
    at::Tensor view =
        at::full(shape, std::numeric_limits<double>::quiet_NaN(), x.options());
    for (std::int64_t i = 0; i < x.dim(); ++i) {
      view = view.slice(i, 2, 2 + 2 * x.size(i), 2);
    }
    view.copy_(x);
    return view;
  }
  return x;
}

/// Makes the tensors of one run and collects its results.
class Run {
 public:
  explicit Run(const RunOptions& options)
      : options_(options),
        dtype_(options.precision == Precision::kFp64 ? at::kDouble
                                                     : at::kFloat) {
    at::set_num_threads(options.threads);
  }

  at::Tensor constant(const Values& values, const Shape& shape) const {
    if (values.empty() &&
        std::find(shape.begin(), shape.end(), 0) == shape.end()) {
      return {};
    }
    return lay_out(from_vector(values, shape).to(dtype_), options_.layout);
  }
  /// A leaf whose gradient is collected as grad_<name>.
  at::Tensor leaf(const std::string& name, const Values& values,
                  const Shape& shape) {
    at::Tensor x = constant(values, shape);
    if (x.defined()) leaves_.emplace_back(name, x.requires_grad_());
    return x;
  }

  void constant_output(const std::string& name, const at::Tensor& value) {
    EXPECT_FALSE(value.requires_grad()) << name;
    results_.push_back({name, to_vector(value)});
  }
  void output(const std::string& name, const at::Tensor& value,
              const Values& upstream) {
    results_.push_back({name, to_vector(value)});
    if (options_.expanded_upstream) {
      outputs_.push_back(value);
      upstream_.push_back(at::ones({}, dtype_).expand(value.sizes()));
    } else if (!upstream.empty()) {
      outputs_.push_back(value);
      upstream_.push_back(constant(upstream, value.sizes().vec()));
    }
  }

  Results finish() {
    if (!outputs_.empty()) {
      torch::autograd::backward(outputs_, upstream_);
      for (const auto& [name, x] : leaves_) {
        const at::Tensor grad =
            x.grad().defined() ? x.grad() : at::zeros_like(x);
        results_.push_back({"grad_" + name, to_vector(grad)});
      }
    }
    return std::move(results_);
  }

 private:
  RunOptions options_;
  at::ScalarType dtype_;
  std::vector<std::pair<std::string, at::Tensor>> leaves_;
  std::vector<at::Tensor> outputs_, upstream_;
  Results results_;
};

ops::DeltaRuleInputs delta_rule_leaves(Run& run,
                                       const reference::DeltaRuleInput& in) {
  const std::int64_t T = in.tokens(), H = in.key_heads, HV = in.value_heads;
  const std::int64_t K = in.key_width, V = in.value_width;
  ops::DeltaRuleInputs x;
  x.q = run.leaf("q", in.q, {T, H, K});
  x.k = run.leaf("k", in.k, {T, H, K});
  if (!in.k_write.empty())
    x.k_write = run.leaf("k_write", in.k_write, {T, HV, K});
  x.v = run.leaf("v", in.v, {T, HV, V});
  x.beta = run.leaf("beta", in.beta, {T, HV});
  if (!in.g.empty()) {
    x.g = run.leaf("g", in.g,
                   in.gate_per_channel() ? Shape{T, HV, K} : Shape{T, HV});
  }
  x.state0 = run.leaf("state0", in.state0, {in.documents(), HV, K, V});
  return x;
}

ops::PreconditionerOptions preconditioner_options(
    const reference::KeyWriteInput& in) {
  ops::PreconditionerOptions options;
  options.eta = in.recurrence.eta;
  options.d_min = in.recurrence.box_lo;
  options.d_max = in.recurrence.box_hi;
  options.beta_aware = in.recurrence.beta_aware;
  switch (in.recurrence.energy) {
    case reference::KeyEnergy::kFloor:
      options.norm = ops::PreconditionerNorm::kFloor;
      break;
    case reference::KeyEnergy::kOff:
      options.norm = ops::PreconditionerNorm::kOff;
      break;
    case reference::KeyEnergy::kAdd:
      options.norm = ops::PreconditionerNorm::kAdd;
      break;
  }
  options.detach = in.detach;
  options.l2_norm = in.l2_norm;
  return options;
}

at::Tensor start_leaf(Run& run, const reference::PreconditionerInput& in) {
  const std::int64_t HV = in.value_heads, K = in.key_width;
  const bool shared = static_cast<std::int64_t>(in.d0.size()) == HV * K;
  return run.leaf("d0", in.d0,
                  shared ? Shape{HV, K} : Shape{in.documents(), HV, K});
}

}  // namespace

const Values& named(const Results& results, const std::string& name) {
  for (const NamedValues& result : results) {
    if (result.name == name) return result.values;
  }
  throw std::runtime_error("no result is named " + name);
}

Results run_delta_rule(const reference::DeltaRuleInput& in,
                       const Values& grad_o, const Values& grad_state_T,
                       const RunOptions& options) {
  Run run(options);
  const ops::DeltaRuleInputs x = delta_rule_leaves(run, in);
  const ops::DeltaRuleOutput out =
      ops::delta_rule(x, ops::Documents(in.cu_seqlens), {in.l2_norm});
  run.output("o", out.o, grad_o);
  run.output("state_T", out.state_T, grad_state_T);
  return run.finish();
}

Results run_preconditioner(const reference::KeyWriteInput& in,
                           const Values& grad_k_write, const Values& grad_d_T,
                           const RunOptions& options) {
  Run run(options);
  const reference::PreconditionerInput& p = in.recurrence;
  const std::int64_t T = p.tokens(), HV = p.value_heads, K = p.key_width;
  ops::PreconditionerInputs x;
  x.k = run.leaf("k", p.k, {T, p.key_heads, K});
  x.beta = run.leaf("beta", p.beta, {T, HV});
  if (!p.r.empty()) x.r = run.leaf("r", p.r, {T, HV});
  x.d0 = start_leaf(run, p);
  const ops::Documents documents(p.cu_seqlens);
  const ops::PreconditionerOptions how = preconditioner_options(in);
  const ops::PreconditionerOutput out = ops::preconditioner(x, documents, how);
  run.constant_output("d", ops::preconditioner_trace(x, documents, how));
  run.output("k_write", out.k_write, grad_k_write);
  run.output("d_T", out.d_T, grad_d_T);
  return run.finish();
}

Results reference_delta_rule(const reference::DeltaRuleInput& in,
                             const Values& grad_o, const Values& grad_state_T) {
  const reference::DeltaRuleOutput out = reference::delta_rule_forward(in);
  Results results{{"o", out.o}, {"state_T", out.state_T}};
  if (grad_o.empty() && grad_state_T.empty()) return results;
  const reference::DeltaRuleGradients grad = reference::delta_rule_backward(
      in, grad_o.empty() ? Values(out.o.size(), 0.0) : grad_o, grad_state_T);
  results.push_back({"grad_q", grad.q});
  results.push_back({"grad_k", grad.k});
  if (!in.k_write.empty()) results.push_back({"grad_k_write", grad.k_write});
  results.push_back({"grad_v", grad.v});
  results.push_back({"grad_beta", grad.beta});
  if (!in.g.empty()) results.push_back({"grad_g", grad.g});
  if (!in.state0.empty()) results.push_back({"grad_state0", grad.state0});
  return results;
}

Results reference_preconditioner(const reference::KeyWriteInput& in,
                                 const Values& grad_k_write,
                                 const Values& grad_d_T) {
  const reference::KeyWriteOutput out = reference::key_write_forward(in);
  Results results{{"d", out.d}, {"k_write", out.k_write}, {"d_T", out.d_T}};
  if (grad_k_write.empty() && grad_d_T.empty()) return results;
  const reference::PreconditionerGradients grad = reference::key_write_backward(
      in, grad_k_write.empty() ? Values(out.k_write.size(), 0.0) : grad_k_write,
      grad_d_T);
  results.push_back({"grad_k", grad.k});
  results.push_back({"grad_beta", grad.beta});
  if (!in.recurrence.r.empty()) results.push_back({"grad_r", grad.r});
  results.push_back({"grad_d0", grad.d0});
  return results;
}

Results run_layer_core(const reference::DeltaRuleInput& in,
                       const reference::KeyWriteInput& write,
                       const Values& grad_o, const Values& grad_state_T,
                       const RunOptions& options) {
  Run run(options);
  ops::DeltaRuleInputs x = delta_rule_leaves(run, in);
  const reference::PreconditionerInput& p = write.recurrence;
  ops::PreconditionerInputs px{x.k, x.beta, {}, start_leaf(run, p)};
  if (!p.r.empty()) {
    px.r = run.leaf("r", p.r, {p.tokens(), p.value_heads});
  }
  const ops::Documents documents(in.cu_seqlens);
  x.k_write =
      ops::preconditioner(px, documents, preconditioner_options(write)).k_write;
  const ops::DeltaRuleOutput out = ops::delta_rule(x, documents, {in.l2_norm});
  run.output("o", out.o, grad_o);
  run.output("state_T", out.state_T, grad_state_T);
  return run.finish();
}

Results run_short_conv(const ShortConvInput& in, const Values& grad_y,
                       const Values& grad_state_T, const RunOptions& options) {
  Run run(options);
  const std::int64_t C = in.channels, W = in.taps;
  const ops::Documents documents(in.cu_seqlens);
  ops::ShortConvInputs x;
  x.x = run.leaf("x", in.x, {documents.tokens(), C});
  x.weight = run.leaf("weight", in.weight, {C, 1, W});
  if (!in.state0.empty()) {
    x.state0 = run.leaf("state0", in.state0, {documents.count(), C, W - 1});
  }
  const ops::ShortConvOutput out = ops::short_conv(x, documents, in.silu);
  run.output("y", out.y, grad_y);
  run.output("state_T", out.state_T, grad_state_T);
  return run.finish();
}

Results run_head_loss(const HeadLossInput& in, double upstream_factor,
                      const RunOptions& options) {
  Run run(options);
  const auto T = static_cast<std::int64_t>(in.labels.size());
  const at::Tensor hidden = run.leaf("hidden", in.hidden, {T, in.width});
  const at::Tensor weight = run.leaf("weight", in.weight, {in.vocab, in.width});
  at::Tensor labels = at::empty({T}, at::kLong);
  std::copy(in.labels.begin(), in.labels.end(),
            labels.data_ptr<std::int64_t>());
  const ops::TokenScores scores =
      ops::linear_token_scores(hidden, weight, labels, in.chunk_tokens);
  run.constant_output("log_prob", scores.log_prob);
  run.constant_output("greedy", scores.greedy);
  const at::Tensor loss =
      ops::linear_cross_entropy(hidden, weight, labels, in.chunk_tokens);
  run.output("loss", loss * upstream_factor, {1.0});
  return run.finish();
}

}  // namespace osdn::test
