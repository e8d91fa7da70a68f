#include "decode_step_cuda.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "cuda_call.h"
#include "kernel_options.h"
#include "kernels/decode/decode.cuh"
#include "tensor_check.h"

namespace osdn::ops {
namespace {

/// Everything that a call reads, contiguous.
DecodeStepInputs contiguous(const DecodeStepInputs& in) {
  return {ops::contiguous(in.q),         ops::contiguous(in.k),
          ops::contiguous(in.v),         ops::contiguous(in.q_filter),
          ops::contiguous(in.k_filter),  ops::contiguous(in.v_filter),
          ops::contiguous(in.beta),      ops::contiguous(in.decay),
          ops::contiguous(in.A_log),     ops::contiguous(in.decay_bias),
          ops::contiguous(in.retention), ops::contiguous(in.retention_bias),
          ops::contiguous(in.gate),      ops::contiguous(in.norm_weight)};
}

/// One of q, k, v. The kernels keep past inputs as [N, W-1, C]; seen as
/// [N, C, W-1] they go from step to step without a copy.
class Conv {
 public:
  Conv(const at::Tensor& x, const at::Tensor& filter, const at::Tensor& past,
       bool in_place)
      : past_(past.transpose(1, 2).contiguous()),
        past_out_(in_place ? past_ : at::empty_like(past_)) {
    params_.x = pointer(x);
    params_.weight = floats(filter);
    params_.past = pointer(past_);
    params_.past_out = pointer(past_out_);
  }
  const kernels::DecodeConv& params() const { return params_; }
  at::Tensor past_out() const { return past_out_.transpose(1, 2); }

 private:
  at::Tensor past_, past_out_;
  kernels::DecodeConv params_;
};

kernels::DecodeGates gates_of(const DecodeStepInputs& in,
                              const DecodeStepOptions& options) {
  kernels::DecodeGates gates;
  gates.beta = pointer(in.beta);
  gates.beta_scale = static_cast<float>(options.beta_scale);
  if (!in.decay.defined()) return gates;
  gates.decay = options.lower_bound ? kernels::DecodeDecay::kBounded
                                    : kernels::DecodeDecay::kSoftplus;
  gates.lower_bound = static_cast<float>(options.lower_bound.value_or(0));
  gates.decay_per_channel = in.decay.dim() == 3;
  gates.decay_logits = pointer(in.decay);
  gates.a_log = floats(in.A_log);
  gates.decay_bias = floats(in.decay_bias);
  return gates;
}

kernels::DecodeRetention retention_of(DecodeRetention retention) {
  switch (retention) {
    case DecodeRetention::kSigmoid:
      return kernels::DecodeRetention::kSigmoid;
    case DecodeRetention::kTied:
      return kernels::DecodeRetention::kTied;
    case DecodeRetention::kConstant:
      return kernels::DecodeRetention::kConstant;
    case DecodeRetention::kOne:
      break;
  }
  return kernels::DecodeRetention::kOne;
}

kernels::DecodePreconditioner preconditioner_of(
    const DecodeStepInputs& in, const DecodeStepOptions& options,
    const at::Tensor& d, const at::Tensor& d_out) {
  kernels::DecodePreconditioner scale;
  scale.d = floats(d);
  scale.d_out = floats(d_out);
  scale.eta = static_cast<float>(options.preconditioner.eta);
  scale.box_lo = static_cast<float>(options.preconditioner.d_min);
  scale.box_hi = static_cast<float>(options.preconditioner.d_max);
  scale.beta_aware = options.preconditioner.beta_aware;
  scale.energy = energy_of(options.preconditioner.norm);
  scale.retention = retention_of(options.retention);
  scale.logits = pointer(in.retention);
  scale.bias = floats(in.retention_bias);
  scale.value = static_cast<float>(options.retention_value);
  return scale;
}

}  // namespace

DecodeStepOutput decode_step_cuda(const DecodeStepInputs& given,
                                  const DecodeState& state,
                                  const DecodeStepOptions& options) {
  const DecodeStepInputs in = contiguous(given);
  const at::Tensor S = ops::contiguous(state.state);
  const at::Tensor d = ops::contiguous(state.d);
  // With several value heads a key head, several blocks read the past of q, k.
  const bool own_keys =
      options.in_place && in.q.size(1) == S.size(1) * S.size(2);
  const Conv q(in.q, in.q_filter, state.conv_q, own_keys);
  const Conv k(in.k, in.k_filter, state.conv_k, own_keys);
  const Conv v(in.v, in.v_filter, state.conv_v, options.in_place);
  DecodeStepOutput out{at::empty_like(in.v),
                       {options.in_place ? S : at::empty_like(S),
                        options.in_place ? d : empty_beside(d), q.past_out(),
                        k.past_out(), v.past_out()}};
  kernels::DecodeParams p;
  p.shape.sequences = in.q.size(0);
  p.shape.value_heads = S.size(1);
  p.shape.key_width = S.size(2);
  p.shape.value_width = S.size(3);
  p.shape.key_heads = in.q.size(1) / S.size(2);
  p.shape.conv_width = static_cast<int>(in.q_filter.size(2));
  p.shape.element = element_of(in.q);
  p.q = q.params();
  p.k = k.params();
  p.v = v.params();
  p.gates = gates_of(in, options);
  p.preconditioner = preconditioner_of(in, options, d, out.state.d);
  p.state = floats(S);
  p.state_out = floats(out.state.state);
  p.activation = activation_of(in.gate, options.activation);
  p.gate = pointer(in.gate);
  p.norm_weight = floats(in.norm_weight);
  p.eps = static_cast<float>(options.eps);
  p.o = pointer(out.o);
  kernels::decode(p, current_stream(in.q));
  return out;
}

}  // namespace osdn::ops
