#pragma once
// Shapes, gates and inputs on which the delta rule's kernels are judged, and
// one call of forward and backward with poison around everything.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gpu/device_memory.h"
#include "kernels/delta_rule/delta_rule.cuh"
#include "reference/delta_rule_reference.h"

namespace osdn::test {

struct DeltaRuleCase {
  std::string name;
  std::vector<std::int64_t> lengths;  ///< of the documents
  std::int64_t key_heads = 1, value_heads = 1, key_width = 64, value_width = 64;
  kernels::DeltaRuleGate gate = kernels::DeltaRuleGate::kNone;
  bool separate_key = false;
  double correlation = 0.1;  ///< mean k_i . k_j of different tokens
  double log_decay = -0.1;   ///< scale of g; -1000: runs of it among mild ones
  double beta_max = 1;       ///< beta in (0, beta_max); 0: all zero
  bool unit_write = false;   ///< k_write = k
  bool l2_norm = true;
  bool states = true;  ///< state0 and grad_state_T given
  kernels::Element element = kernels::Element::kBF16;
};

inline std::uint16_t round_bf16(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
inline double from_bf16(std::uint16_t half) {
  const std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
  float x;
  std::memcpy(&x, &bits, 4);
  return static_cast<double>(x);
}

/// Inputs in float64, already rounded to what the kernels will see.
struct DeltaRuleProblem {
  reference::DeltaRuleInput in;
  reference::Values grad_o, grad_state_T;
};

inline void round_values(reference::Values& values, kernels::Element element) {
  for (double& x : values) {
    const float single = static_cast<float>(x);
    x = element == kernels::Element::kBF16 ? from_bf16(round_bf16(single))
                                           : static_cast<double>(single);
  }
}

inline DeltaRuleProblem make_problem(const DeltaRuleCase& c, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  DeltaRuleProblem p;
  reference::DeltaRuleInput& in = p.in;
  in.key_heads = c.key_heads;
  in.value_heads = c.value_heads;
  in.key_width = c.key_width;
  in.value_width = c.value_width;
  in.l2_norm = c.l2_norm;
  in.cu_seqlens = {0};
  for (const std::int64_t length : c.lengths) {
    in.cu_seqlens.push_back(in.cu_seqlens.back() + length);
  }
  const std::int64_t T = in.tokens(), N = in.documents();
  const std::int64_t K = c.key_width, V = c.value_width;
  const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
  // Keys with a common part: mean of k_i . k_j is `correlation`.
  const auto fill_keys = [&](reference::Values& keys) {
    reference::Values common(size(c.key_heads * K));
    for (double& x : common) x = normal(random);
    keys.resize(size(T * c.key_heads * K));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = std::sqrt(1 - c.correlation) * normal(random) +
                std::sqrt(c.correlation) * common[i % common.size()];
      if (!c.l2_norm) keys[i] /= std::sqrt(static_cast<double>(K));
    }
    round_values(keys, c.element);
  };
  fill_keys(in.q);
  fill_keys(in.k);
  if (c.separate_key) {
    in.k_write.resize(size(T * c.value_heads * K));
    const std::int64_t group = c.value_heads / c.key_heads;
    for (std::int64_t i = 0; i < T * c.value_heads * K; ++i) {
      const std::int64_t t = i / (c.value_heads * K);
      const std::int64_t h = i / K % c.value_heads / group;
      const double d = c.unit_write ? 1 : 0.5 + 1.5 * uniform(random);
      in.k_write[size(i)] = d * in.k[size((t * c.key_heads + h) * K + i % K)];
    }
    round_values(in.k_write, c.element);
  }
  const auto fill = [&](reference::Values& values, std::int64_t n,
                        bool tensor) {
    values.resize(size(n));
    for (double& x : values) x = normal(random);
    round_values(values, tensor ? c.element : kernels::Element::kF32);
  };
  fill(in.v, T * c.value_heads * V, true);
  fill(p.grad_o, T * c.value_heads * V, true);
  in.beta.resize(size(T * c.value_heads));
  for (double& x : in.beta) x = c.beta_max * uniform(random);
  round_values(in.beta, kernels::Element::kF32);
  if (c.gate != kernels::DeltaRuleGate::kNone) {
    const bool channel = c.gate == kernels::DeltaRuleGate::kPerChannel;
    in.g.resize(size(T * c.value_heads * (channel ? K : 1)));
    std::int64_t run = 0;
    for (double& x : in.g) {
      x = c.log_decay * uniform(random);
      if (c.log_decay <= -1000) {
        if (run == 0 && uniform(random) < 0.02) run = 1 + (random() % 5);
        x = run > 0 ? -1000.0 : -0.1 * uniform(random);
        if (run > 0) --run;
      }
    }
    round_values(in.g, kernels::Element::kF32);
  }
  if (c.states) {
    fill(in.state0, N * c.value_heads * K * V, false);
    fill(p.grad_state_T, N * c.value_heads * K * V, false);
    for (double& x : in.state0) x *= 0.3;
    for (double& x : p.grad_state_T) x *= 0.3;
    round_values(in.state0, kernels::Element::kF32);
    round_values(p.grad_state_T, kernels::Element::kF32);
  }
  return p;
}

/// A float64 vector on the device, as bf16 or fp32; empty stays null.
inline DeviceBuffer to_device(const reference::Values& values,
                              kernels::Element element) {
  DeviceBuffer buffer(values.size() *
                      static_cast<std::size_t>(kernels::bytes_of(element)));
  if (element == kernels::Element::kBF16) {
    std::vector<std::uint16_t> host(values.size());
    for (std::size_t i = 0; i < host.size(); ++i) {
      host[i] = round_bf16(static_cast<float>(values[i]));
    }
    buffer.upload(host);
  } else {
    buffer.upload(std::vector<float>(values.begin(), values.end()));
  }
  return buffer;
}

inline reference::Values to_host(const DeviceBuffer& buffer,
                                 kernels::Element element) {
  if (element == kernels::Element::kBF16) {
    const auto host = buffer.download<std::uint16_t>();
    reference::Values values(host.size());
    for (std::size_t i = 0; i < host.size(); ++i)
      values[i] = from_bf16(host[i]);
    return values;
  }
  const auto host = buffer.download<float>();
  return {host.begin(), host.end()};
}

/// Device copies of a problem and of everything that a call writes.
class DeltaRuleRun {
 public:
  DeltaRuleRun(const DeltaRuleCase& c, const DeltaRuleProblem& p,
               kernels::DeltaRuleVersion version, bool keep_saved)
      : element_(c.element) {
    using kernels::Element;
    const reference::DeltaRuleInput& in = p.in;
    kernels::DeltaRuleInputs& to = fwd.in;
    to.shape = {in.tokens(),    in.documents(), in.key_heads,
                in.value_heads, in.key_width,   in.value_width};
    to.element = element_;
    to.gate = c.gate;
    to.version = version;
    to.l2_norm = c.l2_norm;
    to.q = put(in.q, element_);
    to.k = put(in.k, element_);
    if (c.separate_key) to.k_write = put(in.k_write, element_);
    to.v = put(in.v, element_);
    to.beta = static_cast<const float*>(put(in.beta, Element::kF32));
    if (!in.g.empty()) {
      to.g = static_cast<const float*>(put(in.g, Element::kF32));
    }
    if (!in.state0.empty()) {
      to.state0 = static_cast<const float*>(put(in.state0, Element::kF32));
    }
    inputs_.emplace_back(in.cu_seqlens.size() * 8);
    inputs_.back().upload(in.cu_seqlens);
    to.cu_seqlens = inputs_.back().as<std::int64_t>();
    bwd.grad_o = put(p.grad_o, element_);
    if (!p.grad_state_T.empty()) {
      bwd.grad_state_T =
          static_cast<const float*>(put(p.grad_state_T, Element::kF32));
    }
    const std::size_t states = static_cast<std::size_t>(
        in.documents() * in.value_heads * in.key_width * in.value_width);
    o = output(in.v.size(), element_);
    state_T = output(states, Element::kF32);
    grad_q = output(in.q.size(), element_);
    grad_k = output(in.k.size(), element_);
    grad_k_write = output(in.k_write.size(), element_);
    grad_v = output(in.v.size(), element_);
    grad_beta = output(in.beta.size(), Element::kF32);
    grad_g = output(in.g.size(), Element::kF32);
    grad_state0 = output(states, Element::kF32);
    fwd.o = o.as<void>();
    fwd.state_T = state_T.as<float>();
    bwd.grad_q = grad_q.as<void>();
    bwd.grad_k = grad_k.as<void>();
    bwd.grad_k_write = c.separate_key ? grad_k_write.as<void>() : nullptr;
    bwd.grad_v = grad_v.as<void>();
    bwd.grad_beta = grad_beta.as<float>();
    bwd.grad_g = in.g.empty() ? nullptr : grad_g.as<float>();
    bwd.grad_state0 = grad_state0.as<float>();
    if (keep_saved) {
      saved_ = scratch(kernels::delta_rule_saved_bytes(to));
      to.saved = saved_.as<void>();
    }
    fwd_space_ = scratch(kernels::delta_rule_fwd_workspace_bytes(fwd));
    bwd.in = to;
    bwd_space_ = scratch(kernels::delta_rule_bwd_workspace_bytes(bwd));
    to.workspace = fwd_space_.as<void>();
    bwd.in.workspace = bwd_space_.as<void>();
  }

  void run() {
    kernels::delta_rule_fwd(fwd, nullptr);
    kernels::delta_rule_bwd(bwd, nullptr);
    device_synchronize();
  }

  /// Every byte that the call has written to its outputs.
  std::vector<std::vector<unsigned char>> output_bytes() const {
    std::vector<std::vector<unsigned char>> all;
    for (const DeviceBuffer* b : outputs()) {
      all.push_back(b->download<unsigned char>());
    }
    return all;
  }
  bool guards_are_whole() const {
    for (const DeviceBuffer* b : outputs()) {
      if (!b->guard_is_whole()) return false;
    }
    return (saved_.as<void>() == nullptr || saved_.guard_is_whole()) &&
           fwd_space_.guard_is_whole() && bwd_space_.guard_is_whole();
  }
  std::vector<const DeviceBuffer*> outputs() const {
    return {&o,      &state_T,   &grad_q, &grad_k,     &grad_k_write,
            &grad_v, &grad_beta, &grad_g, &grad_state0};
  }

  kernels::DeltaRuleFwdParams fwd;
  kernels::DeltaRuleBwdParams bwd;
  DeviceBuffer o, state_T, grad_q, grad_k, grad_k_write, grad_v, grad_beta,
      grad_g, grad_state0;

 private:
  void* put(const reference::Values& values, kernels::Element element) {
    inputs_.push_back(to_device(values, element));
    return inputs_.back().as<void>();
  }
  static DeviceBuffer output(std::size_t count, kernels::Element element) {
    return DeviceBuffer(count *
                        static_cast<std::size_t>(kernels::bytes_of(element)));
  }
  /// Scratch starts as 1e30 in both types.
  static DeviceBuffer scratch(std::int64_t bytes) {
    DeviceBuffer buffer(static_cast<std::size_t>(bytes));
    buffer.fill_word(0x71497149u);
    return buffer;
  }

  kernels::Element element_;
  std::vector<DeviceBuffer> inputs_;
  DeviceBuffer saved_, fwd_space_, bwd_space_;
};

}  // namespace osdn::test
