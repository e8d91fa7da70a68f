#pragma once
// The decoding step's kernel against float64: several tokens in a row, poison
// around every output, and a second run with the same bits.

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "gpu/delta_rule_checks.h"
#include "kernels/decode/decode.cuh"
#include "reference/decode_reference.h"

namespace osdn::test {

struct DecodeCase {
  std::string name;
  kernels::DecodeShape shape;
  bool learned_beta = true;
  double beta_scale = 1;
  kernels::DecodeDecay decay = kernels::DecodeDecay::kNone;
  bool decay_per_channel = false;
  double a_log = 0;
  bool preconditioner = false;
  bool beta_aware = true;
  double eta = 0.05;
  kernels::KeyEnergy energy = kernels::KeyEnergy::kFloor;
  kernels::DecodeRetention retention = kernels::DecodeRetention::kOne;
  bool retention_logits = true;  ///< with kSigmoid; the bias is always there
  kernels::GateActivation activation = kernels::GateActivation::kSilu;
  bool in_place = false;
  int steps = 3;
};

inline DecodeCase decode_case(std::string name, std::int64_t N, std::int64_t H,
                              std::int64_t HV, std::int64_t K, std::int64_t V) {
  DecodeCase c;
  c.name = std::move(name);
  c.shape = {N, H, HV, K, V, 4, kernels::Element::kF32};
  return c;
}

/// Draws a case's values, already rounded to what the kernel will see.
class DecodeDrawer {
 public:
  DecodeDrawer(kernels::Element element, unsigned seed)
      : element_(element), random_(seed) {}
  reference::Values element(std::int64_t count, double scale = 1) {
    return drawn(count, element_, 0, scale);
  }
  reference::Values single(std::int64_t count, double mean = 0,
                           double scale = 1) {
    return drawn(count, kernels::Element::kF32, mean, scale);
  }

 private:
  reference::Values drawn(std::int64_t count, kernels::Element element,
                          double mean, double scale) {
    reference::Values values(static_cast<std::size_t>(count));
    for (double& x : values) x = mean + scale * normal_(random_);
    round_values(values, element);
    return values;
  }
  kernels::Element element_;
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
};

/// What one token brings.
inline void draw_token(const DecodeCase& c, DecodeDrawer& draw,
                       reference::DecodeInput& in) {
  using kernels::DecodeRetention;
  const kernels::DecodeShape& s = c.shape;
  const std::int64_t rows = s.sequences * s.value_heads;
  in.q.x = draw.element(s.sequences * s.key_heads * s.key_width);
  in.k.x = draw.element(s.sequences * s.key_heads * s.key_width);
  in.v.x = draw.element(rows * s.value_width);
  if (c.learned_beta) in.beta = draw.element(rows);
  if (c.decay != kernels::DecodeDecay::kNone) {
    in.decay = draw.element(rows * (c.decay_per_channel ? s.key_width : 1));
  }
  if (c.preconditioner && c.retention == DecodeRetention::kSigmoid &&
      c.retention_logits) {
    in.r_logits = draw.element(rows);
  }
  if (c.activation != kernels::GateActivation::kNone) {
    in.gate = draw.element(rows * s.value_width);
  }
}

/// Parameters and the states before the first token.
inline reference::DecodeInput draw_layer(const DecodeCase& c,
                                         DecodeDrawer& draw) {
  using kernels::DecodeRetention;
  const kernels::DecodeShape& s = c.shape;
  reference::DecodeInput in;
  in.sequences = s.sequences;
  in.key_heads = s.key_heads;
  in.value_heads = s.value_heads;
  in.key_width = s.key_width;
  in.value_width = s.value_width;
  in.conv_width = s.conv_width;
  for (reference::DecodeConvInput* conv : {&in.q, &in.k, &in.v}) {
    const std::int64_t C = conv == &in.v ? s.value_heads * s.value_width
                                         : s.key_heads * s.key_width;
    conv->weight = draw.single(C * s.conv_width, 0, 0.5);
    conv->past = draw.element(s.sequences * (s.conv_width - 1) * C);
  }
  in.beta_scale = c.beta_scale;
  if (c.decay != kernels::DecodeDecay::kNone) {
    in.a_log = draw.single(s.value_heads, c.a_log, 0.3);
    in.decay_bias =
        draw.single(s.value_heads * (c.decay_per_channel ? s.key_width : 1));
    in.lower_bound = c.decay == kernels::DecodeDecay::kBounded ? -5 : 0;
  }
  const std::int64_t heads = s.sequences * s.value_heads;
  if (c.preconditioner) {
    in.d = draw.single(heads * s.key_width, 1, 0.1);
    in.eta = static_cast<float>(c.eta);
    in.beta_aware = c.beta_aware;
    in.energy = static_cast<reference::KeyEnergy>(c.energy);
    if (c.retention == DecodeRetention::kSigmoid) {
      in.r_bias = draw.single(s.value_heads, 3);
    }
    in.r_tied = c.retention == DecodeRetention::kTied;
    if (c.retention == DecodeRetention::kConstant) in.r_constant = 0.875;
  }
  in.state = draw.single(heads * s.key_width * s.value_width, 0, 0.3);
  in.norm_weight = draw.single(s.value_width, 1, 0.3);
  in.gate_silu = c.activation == kernels::GateActivation::kSilu;
  in.eps = 1e-5;
  return in;
}

/// Device copies of one token, and the states before and after it.
class DecodeRun {
 public:
  DecodeRun(const DecodeCase& c, const reference::DecodeInput& in)
      : element_(c.shape.element), in_place_(c.in_place) {
    p_.shape = c.shape;
    connect(p_.q, in.q, past_q);
    connect(p_.k, in.k, past_k);
    connect(p_.v, in.v, past_v);
    p_.gates.beta = put(in.beta);
    p_.gates.beta_scale = static_cast<float>(in.beta_scale);
    p_.gates.decay = c.decay;
    p_.gates.decay_per_channel = c.decay_per_channel;
    p_.gates.decay_logits = put(in.decay);
    p_.gates.a_log = put_floats(in.a_log);
    p_.gates.decay_bias = put_floats(in.decay_bias);
    p_.gates.lower_bound = static_cast<float>(in.lower_bound);
    kernels::DecodePreconditioner& scale = p_.preconditioner;
    scale.eta = static_cast<float>(in.eta);
    scale.beta_aware = in.beta_aware;
    scale.energy = c.energy;
    scale.retention = c.retention;
    scale.logits = put(in.r_logits);
    scale.bias = put_floats(in.r_bias);
    scale.value = static_cast<float>(in.r_constant);
    if (!in.d.empty()) {
      scale.d = put_floats(in.d);
      scale.d_out = static_cast<float*>(output(d, in.d, kF32));
    }
    p_.state = put_floats(in.state);
    p_.state_out = static_cast<float*>(output(state, in.state, kF32));
    p_.activation = c.activation;
    p_.gate = put(in.gate);
    p_.norm_weight = put_floats(in.norm_weight);
    p_.eps = static_cast<float>(in.eps);
    o = DeviceBuffer(in.v.x.size() * bytes(element_));
    p_.o = o.as<void>();
    kernels::decode(p_, nullptr);
    device_synchronize();
  }

  std::vector<std::vector<unsigned char>> output_bytes() const {
    std::vector<std::vector<unsigned char>> all;
    for (const DeviceBuffer* b : outputs()) {
      all.push_back(b->download<unsigned char>());
    }
    return all;
  }
  bool guards_are_whole() const {
    for (const DeviceBuffer* b : outputs()) {
      if (b->as<void>() != nullptr && !b->guard_is_whole()) return false;
    }
    return true;
  }

  DeviceBuffer o, state, d, past_q, past_k, past_v;

 private:
  static constexpr kernels::Element kF32 = kernels::Element::kF32;
  static std::size_t bytes(kernels::Element element) {
    return static_cast<std::size_t>(kernels::bytes_of(element));
  }
  std::vector<const DeviceBuffer*> outputs() const {
    return {&o, &state, &d, &past_q, &past_k, &past_v};
  }
  const void* put(const reference::Values& values) {
    return put(values, element_);
  }
  const float* put_floats(const reference::Values& values) {
    return static_cast<const float*>(put(values, kF32));
  }
  const void* put(const reference::Values& values, kernels::Element element) {
    if (values.empty()) return nullptr;
    inputs_.push_back(to_device(values, element));
    return inputs_.back().as<void>();
  }
  /// Where the new values of the state that was put last go: the same memory,
  /// or a buffer of NaN.
  void* output(DeviceBuffer& to, const reference::Values& like,
               kernels::Element element) {
    if (in_place_) {
      to = std::move(inputs_.back());
    } else {
      to = DeviceBuffer(like.size() * bytes(element));
    }
    return to.as<void>();
  }
  void connect(kernels::DecodeConv& conv, const reference::DecodeConvInput& in,
               DeviceBuffer& past) {
    conv.x = put(in.x);
    conv.weight = put_floats(in.weight);
    conv.past = put(in.past);
    conv.past_out = output(past, in.past, element_);
  }

  kernels::Element element_;
  bool in_place_;
  kernels::DecodeParams p_;
  std::vector<DeviceBuffer> inputs_;
};

/// All steps of a case; what went wrong.
inline std::vector<std::string> check_decode(const DecodeCase& c,
                                             unsigned seed) {
  using kernels::Element;
  const Element element = c.shape.element;
  // Nothing is rounded between input and output, so that states keep fp32
  // accuracy (sums of at most 256 terms, exponentials right to 1e-6) in bf16
  // too; o is rounded once, by at most 2^-9 of each element.
  const double o_bound = element == Element::kBF16 ? 3e-3 : 2e-5;
  DecodeDrawer draw(element, seed);
  reference::DecodeInput exact = draw_layer(c, draw);
  reference::DecodeInput given = exact;
  Judge judge(c.name);
  for (int step = 0; step < c.steps; ++step) {
    draw_token(c, draw, exact);
    given.q.x = exact.q.x, given.k.x = exact.k.x, given.v.x = exact.v.x;
    given.beta = exact.beta;
    given.decay = exact.decay;
    given.r_logits = exact.r_logits;
    given.gate = exact.gate;
    const DecodeRun run(c, given);
    const DecodeRun again(c, given);
    const reference::DecodeOutput want = reference::decode_step(exact);
    exact.state = want.state;
    exact.d = want.d;
    exact.q.past = want.past_q;
    exact.k.past = want.past_k;
    exact.v.past = want.past_v;
    given.state = to_host(run.state, Element::kF32);
    given.d = to_host(run.d, Element::kF32);
    given.q.past = to_host(run.past_q, element);
    given.k.past = to_host(run.past_k, element);
    given.v.past = to_host(run.past_v, element);
    judge.check("o", relative_rms(to_host(run.o, element), want.o), o_bound);
    judge.check("S", relative_rms(given.state, want.state), 2e-5);
    judge.check("d", relative_rms(given.d, want.d), 2e-5);
    judge.require(given.q.past == want.past_q && given.k.past == want.past_k &&
                      given.v.past == want.past_v,
                  "past inputs are exact");
    judge.require(run.output_bytes() == again.output_bytes(),
                  "two runs give the same bits");
    judge.require(run.guards_are_whole(), "nothing is written past an output");
  }
  return judge.failures;
}

/// Every kind of gate, norm, width and grouping at sizes that a CPU can follow.
inline std::vector<DecodeCase> decode_cases() {
  using kernels::DecodeDecay;
  using kernels::DecodeRetention;
  using kernels::GateActivation;
  std::vector<DecodeCase> cases;
  const auto add = [&](DecodeCase c) -> DecodeCase& {
    cases.push_back(std::move(c));
    return cases.back();
  };
  add(decode_case("plain 24x40", 3, 1, 1, 24, 40));
  {
    DecodeCase& c = add(decode_case("beta 1, no gate, 8x8", 1, 2, 2, 8, 8));
    c.learned_beta = false;
    c.activation = GateActivation::kNone;
    c.in_place = true;
  }
  {
    DecodeCase& c = add(decode_case("d, forgetting", 3, 2, 2, 64, 64));
    c.preconditioner = true;
    c.retention = DecodeRetention::kSigmoid;
    c.in_place = true;
    c.shape.conv_width = 2;
  }
  {
    DecodeCase& c = add(decode_case("d, at the box", 1, 1, 1, 40, 24));
    c.preconditioner = true;
    c.eta = 2;
    c.energy = kernels::KeyEnergy::kOff;
    c.beta_scale = 2;
    c.shape.conv_width = 8;
  }
  {
    DecodeCase& c =
        add(decode_case("d, beta ignored, grouped", 2, 1, 3, 24, 40));
    c.preconditioner = true;
    c.beta_aware = false;
    c.energy = kernels::KeyEnergy::kAdd;
    c.retention = DecodeRetention::kConstant;
  }
  {
    DecodeCase& c =
        add(decode_case("per head, tied r, grouped", 2, 2, 4, 128, 64));
    c.decay = DecodeDecay::kSoftplus;
    c.preconditioner = true;
    c.retention = DecodeRetention::kTied;
  }
  {
    DecodeCase& c = add(decode_case("per head, A of 100", 1, 1, 2, 24, 40));
    c.decay = DecodeDecay::kSoftplus;
    c.a_log = 100;
    c.preconditioner = true;
    c.retention = DecodeRetention::kSigmoid;
    c.retention_logits = false;
  }
  {
    DecodeCase& c = add(decode_case("per channel", 2, 1, 1, 64, 128));
    c.decay = DecodeDecay::kSoftplus;
    c.decay_per_channel = true;
    c.activation = GateActivation::kSigmoid;
  }
  {
    DecodeCase& c = add(decode_case("per channel, bounded", 1, 1, 2, 40, 72));
    c.decay = DecodeDecay::kBounded;
    c.decay_per_channel = true;
    c.preconditioner = true;
    c.retention = DecodeRetention::kSigmoid;
    c.activation = GateActivation::kSigmoid;
  }
  add(decode_case("two passes, 128x256", 1, 1, 1, 128, 256)).preconditioner =
      true;
  add(decode_case("widest, 256x256", 1, 1, 1, 256, 256)).preconditioner = true;
  add(decode_case("tall, 232x8", 1, 1, 1, 232, 8)).preconditioner = true;
  add(decode_case("flat, 8x248", 2, 1, 2, 8, 248)).preconditioner = true;
  add(decode_case("no passes fit evenly, 160x200", 1, 1, 1, 160, 200));
  const std::size_t count = cases.size();
  for (std::size_t i = 0; i < count; ++i) {
    DecodeCase half = cases[i];
    half.name += ", bf16";
    half.shape.element = kernels::Element::kBF16;
    cases.push_back(half);
  }
  return cases;
}

}  // namespace osdn::test
