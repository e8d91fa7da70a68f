// The short convolution against its definition, token by token in float64.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ops/operator_cases.h"
#include "ops/run_operators.h"

namespace osdn::test {
namespace {

/// Every output as its definition says, and each gradient by the chain rule.
Results reference_short_conv(const ShortConvInput& in, const Values& grad_y,
                             const Values& grad_state_T) {
  const std::int64_t C = in.channels, W = in.taps;
  const auto N = static_cast<std::int64_t>(in.cu_seqlens.size()) - 1;
  Values y(in.x.size(), 0.0), grad_x(in.x.size(), 0.0);
  Values grad_weight(in.weight.size(), 0.0);
  Values state_T(static_cast<std::size_t>(N * C * (W - 1)), 0.0);
  Values grad_state0(state_T.size(), 0.0);
  for (std::int64_t n = 0; n < N; ++n) {
    const std::int64_t begin = in.cu_seqlens[static_cast<std::size_t>(n)];
    const std::int64_t end = in.cu_seqlens[static_cast<std::size_t>(n) + 1];
    for (std::int64_t c = 0; c < C; ++c) {
      // Input and gradient of token t, which may lie before the document.
      const auto state_at = [&](std::int64_t t) {
        return static_cast<std::size_t>((n * C + c) * (W - 1) + t - begin + W -
                                        1);
      };
      const auto x_at = [&](std::int64_t t) {
        return static_cast<std::size_t>(t * C + c);
      };
      const auto input = [&](std::int64_t t) {
        if (t >= begin) return in.x[x_at(t)];
        return in.state0.empty() ? 0.0 : in.state0[state_at(t)];
      };
      const auto add = [&](std::int64_t t, double grad) {
        (t >= begin ? grad_x[x_at(t)] : grad_state0[state_at(t)]) += grad;
      };
      const auto tap = [&](std::int64_t j) {
        return static_cast<std::size_t>(c * W + j);
      };
      for (std::int64_t t = begin; t < end; ++t) {
        double z = 0;
        for (std::int64_t j = 0; j < W; ++j) {
          z += in.weight[tap(j)] * input(t - W + 1 + j);
        }
        const double s = 1 / (1 + std::exp(-z));
        y[x_at(t)] = in.silu ? z * s : z;
        const double slope = in.silu ? s + z * s * (1 - s) : 1;
        const double grad = grad_y[x_at(t)] * slope;
        for (std::int64_t j = 0; j < W; ++j) {
          grad_weight[tap(j)] += grad * input(t - W + 1 + j);
          add(t - W + 1 + j, grad * in.weight[tap(j)]);
        }
      }
      for (std::int64_t j = 0; j < W - 1; ++j) {
        const auto at = static_cast<std::size_t>((n * C + c) * (W - 1) + j);
        state_T[at] = input(end - (W - 1) + j);
        if (!grad_state_T.empty()) {
          add(end - (W - 1) + j, grad_state_T[at]);
        }
      }
    }
  }
  Results results{{"y", y},
                  {"state_T", state_T},
                  {"grad_x", grad_x},
                  {"grad_weight", grad_weight}};
  if (!in.state0.empty()) results.push_back({"grad_state0", grad_state0});
  return results;
}

ShortConvInput make_input(std::int64_t channels, std::int64_t taps,
                          const std::vector<std::int64_t>& lengths) {
  ShortConvInput in;
  in.channels = channels;
  in.taps = taps;
  in.cu_seqlens = packed(lengths);
  in.x = normal_values(1, in.cu_seqlens.back() * channels);
  in.weight = normal_values(2, channels * taps);
  in.state0 = normal_values(
      3, static_cast<std::int64_t>(lengths.size()) * channels * (taps - 1));
  return in;
}

void expect_reference(const ShortConvInput& in, bool state_gradient = true) {
  const auto states = static_cast<std::int64_t>(in.cu_seqlens.size() - 1) *
                      in.channels * (in.taps - 1);
  const Values grad_y =
      normal_values(4, static_cast<std::int64_t>(in.x.size()));
  const Values grad_state =
      state_gradient ? normal_values(5, states) : Values{};
  const Results expected = reference_short_conv(in, grad_y, grad_state);
  for (Layout layout :
       {Layout::kContiguous, Layout::kTransposed, Layout::kSliced}) {
    RunOptions options;
    options.layout = layout;
    EXPECT_EQ(differences(run_short_conv(in, grad_y, grad_state, options),
                          expected, 1e-14),
              "");
    options.precision = Precision::kFp32;
    EXPECT_EQ(differences(run_short_conv(in, grad_y, grad_state, options),
                          expected, 2e-6),
              "");
  }
}

TEST(ShortConv, V3_every_tap_count_and_length_matches_the_definition) {
  for (std::int64_t taps = 1; taps <= 8; ++taps) {
    for (const auto& lengths : std::vector<std::vector<std::int64_t>>{
             {0}, {1}, {2, 1, 3}, {0, 0, 5, 0, 4}, {37, 64}}) {
      for (bool silu : {true, false}) {
        SCOPED_TRACE(testing::Message() << taps << " taps, lengths "
                                        << testing::PrintToString(lengths));
        ShortConvInput in = make_input(5, taps, lengths);
        in.silu = silu;
        // Without a token and a state there is nothing to go backward from.
        const bool has_state = taps > 1, has_tokens = !in.x.empty();
        if (has_state || has_tokens) expect_reference(in);
        in.state0.clear();
        if (has_state || has_tokens) expect_reference(in);
        if (has_tokens) expect_reference(in, false);
      }
    }
  }
}

TEST(ShortConv, K5_every_channel_count) {
  for (std::int64_t channels : {1, 63, 64, 65, 200}) {
    SCOPED_TRACE(channels);
    expect_reference(make_input(channels, 4, {9, 30}));
  }
}

TEST(ShortConv, large_inputs_saturate_without_overflow) {
  ShortConvInput in = make_input(2, 1, {4});
  in.weight = {1, 1};
  in.x = {-1e4, 1e4, -100, 100, -90, 90, 0, 1};
  const Results got = run_short_conv(in, Values(8, 1.0), {});
  const Values& y = named(got, "y");
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 1e4);
  for (double x : named(got, "grad_x")) EXPECT_TRUE(std::isfinite(x));
  RunOptions options;
  options.precision = Precision::kFp32;
  const Results fp32 = run_short_conv(in, Values(8, 1.0), {}, options);
  for (const char* name : {"y", "grad_x", "grad_weight"}) {
    for (double x : named(fp32, name)) EXPECT_TRUE(std::isfinite(x)) << name;
  }
}

}  // namespace
}  // namespace osdn::test
