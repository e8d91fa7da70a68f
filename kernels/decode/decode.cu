// The launcher of the decoding step.

#include <stdexcept>
#include <string>

#include "kernels/common/launch.cuh"
#include "kernels/decode/decode.cuh"
#include "kernels/decode/decode_device.cuh"

namespace osdn::kernels {
namespace {

const char* shape_unsupported(const DecodeShape& shape) {
  if (shape.sequences < 0) return "sequences must not be negative";
  if (shape.key_heads < 1 || shape.value_heads < 1 ||
      shape.value_heads % shape.key_heads != 0) {
    return "value_heads must be a positive multiple of key_heads";
  }
  for (const std::int64_t width : {shape.key_width, shape.value_width}) {
    if (width < 8 || width > decoding::kMaxWidth || width % 8 != 0) {
      return "key_width and value_width must be multiples of 8 up to 256";
    }
  }
  if (shape.conv_width < 2 || shape.conv_width > decoding::kMaxTaps) {
    return "conv_width must be 2 to 8";
  }
  return nullptr;
}

const char* conv_unsupported(const DecodeConv& conv, bool shared_channels) {
  if (conv.x == nullptr || conv.weight == nullptr || conv.past == nullptr ||
      conv.past_out == nullptr) {
    return "x, weight, past and past_out must be given for q, k and v";
  }
  if (shared_channels && conv.past == conv.past_out) {
    return "past_out of q and k must not be past where value heads share them";
  }
  return nullptr;
}

const char* gates_unsupported(const DecodeGates& gates) {
  if (gates.decay == DecodeDecay::kNone) return nullptr;
  if (gates.decay_logits == nullptr || gates.a_log == nullptr ||
      gates.decay_bias == nullptr) {
    return "a decay needs decay_logits, a_log and decay_bias";
  }
  if (gates.decay == DecodeDecay::kBounded && !(gates.lower_bound < 0.0f)) {
    return "lower_bound must be below 0";
  }
  return nullptr;
}

const char* preconditioner_unsupported(const DecodeParams& p) {
  const DecodePreconditioner& given = p.preconditioner;
  if (given.d == nullptr) return nullptr;
  if (given.d_out == nullptr) return "d_out must be given with d";
  if (!(given.box_lo <= given.box_hi)) {
    return "box_lo must not be above box_hi";
  }
  if (given.retention == DecodeRetention::kSigmoid && given.logits == nullptr &&
      given.bias == nullptr) {
    return "a sigmoid retention needs logits or a bias";
  }
  if (given.retention == DecodeRetention::kTied &&
      (p.gates.decay == DecodeDecay::kNone || p.gates.decay_per_channel)) {
    return "a tied retention needs a decay per head";
  }
  return nullptr;
}

bool misaligned(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 != 0;
}

}  // namespace

const char* decode_unsupported(const DecodeParams& p) {
  if (const char* reason = shape_unsupported(p.shape)) return reason;
  if (p.shape.sequences == 0) return nullptr;
  const bool grouped = p.shape.value_heads != p.shape.key_heads;
  if (const char* reason = conv_unsupported(p.q, grouped)) return reason;
  if (const char* reason = conv_unsupported(p.k, grouped)) return reason;
  if (const char* reason = conv_unsupported(p.v, false)) return reason;
  if (const char* reason = gates_unsupported(p.gates)) return reason;
  if (const char* reason = preconditioner_unsupported(p)) return reason;
  if (p.state == nullptr || p.state_out == nullptr || misaligned(p.state) ||
      misaligned(p.state_out)) {
    return "state and state_out must be given and 16-byte aligned";
  }
  if ((p.activation == GateActivation::kNone) != (p.gate == nullptr)) {
    return "gate must be given exactly when there is an activation";
  }
  if (p.norm_weight == nullptr || p.o == nullptr) {
    return "norm_weight and o must be given";
  }
  return nullptr;
}

void decode(const DecodeParams& p, Stream stream) {
  if (const char* reason = decode_unsupported(p)) {
    throw std::runtime_error(std::string("decode: ") + reason);
  }
  const decoding::Layout layout(p.shape);
  launch("decode",
         p.shape.element == Element::kBF16 ? decoding::step<Bf16>
                                           : decoding::step<float>,
         p.shape.sequences * p.shape.value_heads, layout.threads(),
         static_cast<std::int64_t>(sizeof(decoding::Shared)), stream, p);
}

}  // namespace osdn::kernels
