// The public launchers: checks, the choice of the version, buffers, order.

#include <cmath>
#include <stdexcept>
#include <string>

#include "kernels/common/device_info.h"
#include "kernels/delta_rule/delta_rule.cuh"
#include "kernels/delta_rule/layout.h"

namespace osdn::kernels {
namespace {

using delta_rule::Args;
using delta_rule::Cutter;
using delta_rule::kChunk;

const char* chunk_version_unsupported(const DeltaRuleInputs& in) {
  if (!runs_hopper_code()) {
    return "the chunk version takes a GPU of compute capability 9.0";
  }
  if (in.element != Element::kBF16) return "the chunk version takes bf16 only";
  const std::int64_t K = in.shape.key_width;
  if (K != 64 && K != 128 && K != 256) {
    return "the chunk version takes a key width of 64, 128 or 256";
  }
  if (in.shape.value_width % 64 != 0) {
    return "the chunk version takes a value width that is a multiple of 64";
  }
  return nullptr;
}

bool use_chunk_version(const DeltaRuleInputs& in) {
  return in.version != DeltaRuleVersion::kPlain &&
         chunk_version_unsupported(in) == nullptr;
}

const delta_rule::Version& version_of(const DeltaRuleInputs& in) {
  return use_chunk_version(in) ? delta_rule::kChunkVersion
                               : delta_rule::kPlainVersion;
}

std::int64_t operand_bytes(const DeltaRuleInputs& in) {
  return use_chunk_version(in) ? 2 : 4;
}

std::int64_t chunk_heads(const DeltaRuleInputs& in) {
  return delta_rule::chunk_bound(in.shape.tokens, in.shape.documents) *
         in.shape.value_heads;
}

/// What `prepare` makes and every other kernel reads.
void cut_prepared(const DeltaRuleInputs& in, Cutter& cutter, Args& args) {
  const std::int64_t count = chunk_heads(in), K = in.shape.key_width;
  const std::int64_t chunks =
      delta_rule::chunk_bound(in.shape.tokens, in.shape.documents);
  cutter.cut(args.first_chunk, (in.shape.documents + 1) * 4);
  cutter.cut(args.chunks,
             chunks * static_cast<std::int64_t>(sizeof(delta_rule::ChunkInfo)));
  cutter.cut(args.vectors, count * delta_rule::kVectors * kChunk * 4);
  cutter.cut(args.n, count * kChunk * kChunk * operand_bytes(in));
  cutter.cut(args.P, count * kChunk * kChunk * operand_bytes(in));
  if (in.gate != DeltaRuleGate::kPerChannel) return;
  if (use_chunk_version(in)) {
    cutter.cut(args.qg, count * kChunk * K * 2);
    cutter.cut(args.kg, count * kChunk * K * 2);
    cutter.cut(args.kd, count * kChunk * K * 2);
    cutter.cut(args.channel_decay, count * K * 4);
  } else {
    cutter.cut(args.g_cum, count * kChunk * K * 4);
  }
}

void cut_backward(const DeltaRuleInputs& in, Cutter& cutter, Args& args) {
  const std::int64_t count = chunk_heads(in), bytes = operand_bytes(in);
  const std::int64_t K = in.shape.key_width, V = in.shape.value_width;
  cutter.cut(args.S, count * K * V * bytes);
  cutter.cut(args.dS, count * K * V * bytes);
  cutter.cut(args.Z, count * kChunk * V * bytes);
  cutter.cut(args.X, count * kChunk * V * bytes);
  if (K != 256 || !use_chunk_version(in)) return;
  const std::int64_t items =
      delta_rule::chunk_bound(in.shape.tokens, in.shape.documents) *
      in.shape.key_heads;
  cutter.cut(args.parked, delta_rule::gradient_blocks(items) *
                              delta_rule::kParkedFloats * 4);
}

void refuse(const char* op, const std::string& why) {
  throw std::runtime_error(std::string(op) + ": " + why);
}

/// Arguments of all kernels; checks what every call needs.
Args make_args(const char* op, const DeltaRuleInputs& in) {
  if (const char* reason = delta_rule_unsupported(in)) refuse(op, reason);
  const DeltaRuleShape& shape = in.shape;
  const bool tokens = shape.tokens > 0;
  if (in.cu_seqlens == nullptr || in.workspace == nullptr ||
      (tokens && (in.q == nullptr || in.k == nullptr || in.v == nullptr ||
                  in.beta == nullptr))) {
    refuse(op, "q, k, v, beta, cu_seqlens and workspace must be set");
  }
  if (tokens && (in.gate == DeltaRuleGate::kNone) != (in.g == nullptr)) {
    refuse(op, "g must be given with a gate, and only then");
  }
  Args args{};
  args.T = shape.tokens;
  args.N = shape.documents;
  args.max_chunks = delta_rule::chunk_bound(shape.tokens, shape.documents);
  args.H = static_cast<int>(shape.key_heads);
  args.HV = static_cast<int>(shape.value_heads);
  args.K = static_cast<int>(shape.key_width);
  args.V = static_cast<int>(shape.value_width);
  args.l2_norm = in.l2_norm;
  args.gate = in.gate;
  args.scale =
      static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.key_width)));
  args.q = in.q;
  args.k = in.k;
  args.separate_key = in.k_write != nullptr;
  args.kt = args.separate_key ? in.k_write : in.k;
  args.v = in.v;
  args.beta = in.beta;
  args.g = in.g;
  args.state0 = in.state0;
  args.cu_seqlens = in.cu_seqlens;
  return args;
}

Args make_backward_args(const DeltaRuleBwdParams& params) {
  const DeltaRuleInputs& in = params.in;
  Args args = make_args("delta_rule_bwd", in);
  if (args.T > 0 &&
      (params.grad_o == nullptr || params.grad_q == nullptr ||
       params.grad_k == nullptr || params.grad_v == nullptr ||
       params.grad_beta == nullptr ||
       (params.grad_k_write == nullptr) == args.separate_key ||
       (params.grad_g == nullptr) != (in.gate == DeltaRuleGate::kNone))) {
    refuse("delta_rule_bwd",
           "grad_o and the gradient of every input that is present must be "
           "set, and of no other");
  }
  args.grad_o = params.grad_o;
  args.grad_state_T = params.grad_state_T;
  args.grad_q = params.grad_q;
  args.grad_k = params.grad_k;
  args.grad_kt = params.grad_k_write;
  args.grad_v = params.grad_v;
  args.grad_beta = params.grad_beta;
  args.grad_g = params.grad_g;
  args.grad_state0 = params.grad_state0;
  return args;
}

}  // namespace

const char* delta_rule_unsupported(const DeltaRuleInputs& in) {
  const DeltaRuleShape& shape = in.shape;
  const auto width_ok = [](std::int64_t width) {
    return width >= 8 && width <= 256 && width % 8 == 0;
  };
  if (shape.tokens < 0 || shape.documents < 1) {
    return "needs at least one document and no negative number of tokens";
  }
  if (shape.key_heads < 1 || shape.value_heads < 1 ||
      shape.value_heads % shape.key_heads != 0) {
    return "the number of value heads must be a multiple of the key heads";
  }
  if (!width_ok(shape.key_width) || !width_ok(shape.value_width)) {
    return "key and value widths must be multiples of 8 from 8 to 256";
  }
  if (shape.documents > 0x7ffffffe ||
      delta_rule::chunk_bound(shape.tokens, shape.documents) > 0x7ffffffe) {
    return "more than 2^31 documents or chunks";
  }
  if (in.version == DeltaRuleVersion::kChunk) {
    return chunk_version_unsupported(in);
  }
  return nullptr;
}

std::int64_t delta_rule_saved_bytes(const DeltaRuleInputs& in) {
  Args args{};
  Cutter cutter(nullptr);
  cut_prepared(in, cutter, args);
  return cutter.used();
}

std::int64_t delta_rule_fwd_workspace_bytes(const DeltaRuleFwdParams& params) {
  return params.in.saved == nullptr ? delta_rule_saved_bytes(params.in) : 256;
}

std::int64_t delta_rule_bwd_workspace_bytes(const DeltaRuleBwdParams& params) {
  Args args{};
  Cutter cutter(nullptr);
  if (params.in.saved == nullptr) cut_prepared(params.in, cutter, args);
  cut_backward(params.in, cutter, args);
  return cutter.used();
}

delta_rule::Args delta_rule::locate_intermediates(const DeltaRuleInputs& in) {
  Args args = make_args("locate_intermediates", in);
  Cutter cutter(in.workspace);
  cut_prepared(in, cutter, args);
  cut_backward(in, cutter, args);
  return args;
}

delta_rule::Args delta_rule::bind_backward(const DeltaRuleFwdParams& fwd,
                                           const DeltaRuleBwdParams& bwd) {
  Args args = make_backward_args(bwd);
  args.o = fwd.o;
  args.state_T = fwd.state_T;
  Cutter saved(bwd.in.saved), workspace(bwd.in.workspace);
  cut_prepared(bwd.in, saved, args);
  cut_backward(bwd.in, workspace, args);
  return args;
}

void delta_rule_fwd(const DeltaRuleFwdParams& params, Stream stream) {
  const DeltaRuleInputs& in = params.in;
  Args args = make_args("delta_rule_fwd", in);
  if (params.o == nullptr && args.T > 0) {
    refuse("delta_rule_fwd", "o must be set");
  }
  args.o = params.o;
  args.state_T = params.state_T;
  Cutter cutter(in.saved != nullptr ? in.saved : in.workspace);
  cut_prepared(in, cutter, args);
  const delta_rule::Version& version = version_of(in);
  delta_rule::launch_setup(args, stream);
  version.prepare(args, in.element, stream);
  version.scan(args, in.element, stream);
}

void delta_rule_bwd(const DeltaRuleBwdParams& params, Stream stream) {
  const DeltaRuleInputs& in = params.in;
  Args args = make_backward_args(params);
  Cutter cutter(in.workspace);
  const delta_rule::Version& version = version_of(in);
  if (in.saved != nullptr) {
    Cutter saved(in.saved);
    cut_prepared(in, saved, args);
  } else {
    cut_prepared(in, cutter, args);
    delta_rule::launch_setup(args, stream);
    version.prepare(args, in.element, stream);
  }
  cut_backward(in, cutter, args);
  version.backward_scans(args, in.element, true, true, stream);
  version.gradients(args, in.element, stream);
}

}  // namespace osdn::kernels
