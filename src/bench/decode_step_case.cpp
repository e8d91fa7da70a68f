#include "decode_step_case.h"

#include <numeric>
#include <vector>

#include "drawer.h"
#include "osdn/ops/decode_step.h"

namespace osdn::bench {
namespace {

constexpr std::int64_t kTaps = 4;

Inputs draw(const DecodeShape& s, Drawer& d) {
  const std::int64_t keys = s.H * s.K, values = s.HV * s.V;
  // Past inputs as they go from step to step on a GPU, channels innermost.
  return {{"q", d.normal({s.N, keys})},
          {"k", d.normal({s.N, keys})},
          {"v", d.normal({s.N, values})},
          {"q_filter", d.normal({keys, 1, kTaps}, 0.5), Role::kControl},
          {"k_filter", d.normal({keys, 1, kTaps}, 0.5), Role::kControl},
          {"v_filter", d.normal({values, 1, kTaps}, 0.5), Role::kControl},
          {"beta", d.normal({s.N, s.HV})},
          {"retention", d.normal({s.N, s.HV})},
          {"retention_bias", d.uniform({s.HV}, 2, 4), Role::kControl},
          {"gate", d.normal({s.N, values})},
          {"norm_weight", d.uniform({s.V}, 0.5, 1.5), Role::kControl},
          {"S", d.normal({s.N, s.HV, s.K, s.V}, 0.1), Role::kControl},
          {"d", d.uniform({s.N, s.HV, s.K}, 0.8, 1.2), Role::kControl},
          {"past q", d.normal({s.N, kTaps - 1, keys})},
          {"past k", d.normal({s.N, kTaps - 1, keys})},
          {"past v", d.normal({s.N, kTaps - 1, values})}};
}

std::vector<at::Tensor> run(const std::vector<at::Tensor>& in) {
  ops::DecodeStepInputs given;
  given.q = in[0];
  given.k = in[1];
  given.v = in[2];
  given.q_filter = in[3];
  given.k_filter = in[4];
  given.v_filter = in[5];
  given.beta = in[6];
  given.retention = in[7];
  given.retention_bias = in[8];
  given.gate = in[9];
  given.norm_weight = in[10];
  ops::DecodeStepOptions options;
  options.retention = ops::DecodeRetention::kSigmoid;
  const ops::DecodeStepOutput out =
      ops::decode_step(given,
                       {in[11], in[12], in[13].transpose(1, 2),
                        in[14].transpose(1, 2), in[15].transpose(1, 2)},
                       options);
  return {out.o,
          out.state.state,
          out.state.d,
          out.state.conv_q,
          out.state.conv_k,
          out.state.conv_v};
}

/// bf16 rows, everything else fp32, each read or written once.
double bytes_of(const DecodeShape& s) {
  const auto N = static_cast<double>(s.N);
  const auto keys = static_cast<double>(s.H * s.K);
  const auto values = static_cast<double>(s.HV * s.V);
  const auto state_rows = static_cast<double>(s.HV * s.K);
  const double channels = 2 * keys + values, V = static_cast<double>(s.V);
  const double state = 2 * 4 * state_rows * (V + 1);  // S and d, both ways
  const double past = 2 * 2 * (kTaps - 1) * channels;
  const double rows = 2 * (channels + 2 * values);  // gate and o, too
  return N * (state + past + rows) + 4 * kTaps * channels;
}

}  // namespace

OperatorCase decode_step_case(const DecodeShape& s) {
  OperatorCase c;
  c.op = "decode_step";
  c.shape = s.name;
  c.use = s.use;
  c.differentiable = false;
  c.cu_seqlens.resize(static_cast<std::size_t>(s.N) + 1);
  std::iota(c.cu_seqlens.begin(), c.cu_seqlens.end(), 0);
  c.draw = [s](std::uint64_t seed, at::Device device) {
    Drawer d(seed, device);
    return draw(s, d);
  };
  c.run = [](const std::vector<at::Tensor>& in, const ops::Documents&) {
    return run(in);
  };
  c.bytes = bytes_of(s);
  return c;
}

}  // namespace osdn::bench
