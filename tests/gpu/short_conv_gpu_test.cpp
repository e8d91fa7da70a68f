// Short convolution on the GPU against a plain float64 loop.

#include <gtest/gtest.h>

#include "gpu/op_run.h"
#include "kernels/short_conv/short_conv.cuh"

namespace osdn::test {
namespace {

using namespace kernels;

struct Case {
  std::vector<std::int64_t> lengths;
  std::int64_t channels = 64;
  int width = 4;
  bool silu = true, state = false;
  Element element = Element::kBF16;
  std::int64_t padding = 0;  ///< elements between rows
};

struct Problem {
  std::vector<std::int64_t> cu_seqlens;
  Values x, weight, state_in, grad_y, grad_state_out;
};

struct Result {
  Values y, state_out, grad_x, grad_weight, grad_state_in;
};

Problem problem_of(const Case& c, unsigned seed) {
  Random random(seed);
  Problem p;
  p.cu_seqlens = boundaries(c.lengths);
  const std::int64_t T = p.cu_seqlens.back();
  const std::int64_t states =
      static_cast<std::int64_t>(c.lengths.size()) * (c.width - 1) * c.channels;
  p.x = random.normal(T * c.channels, c.element);
  p.weight = random.normal(c.channels * c.width, Element::kF32, 0.5);
  p.grad_y = random.normal(T * c.channels, c.element);
  p.state_in = random.normal(states, c.element);
  p.grad_state_out = random.normal(states, c.element);
  return p;
}

Result reference(const Case& c, const Problem& p) {
  const std::int64_t C = c.channels, W = c.width, S = W - 1;
  Result r;
  r.y.resize(p.x.size());
  r.grad_x.resize(p.x.size());
  r.grad_weight.resize(p.weight.size());
  r.state_out.resize(p.state_in.size());
  r.grad_state_in.resize(p.state_in.size());
  for (std::size_t n = 0; n < c.lengths.size(); ++n) {
    const std::int64_t begin = p.cu_seqlens[n], length = c.lengths[n];
    const auto N = static_cast<std::int64_t>(n);
    for (std::int64_t ch = 0; ch < C; ++ch) {
      // The padded sequence: W-1 state entries, then the tokens.
      Values in(static_cast<std::size_t>(S + length));
      Values grad_in(in.size());
      for (std::int64_t i = 0; i < S + length; ++i) {
        double& to = in[static_cast<std::size_t>(i)];
        if (i < S) {
          to = c.state
                   ? p.state_in[static_cast<std::size_t>((N * S + i) * C + ch)]
                   : 0;
        } else {
          to = p.x[static_cast<std::size_t>((begin + i - S) * C + ch)];
        }
      }
      for (std::int64_t t = 0; t < length; ++t) {
        const auto at = static_cast<std::size_t>((begin + t) * C + ch);
        double pre = 0;
        for (std::int64_t j = 0; j < W; ++j) {
          pre += p.weight[static_cast<std::size_t>(ch * W + j)] *
                 in[static_cast<std::size_t>(t + j)];
        }
        const double s = sigmoid_of(pre);
        r.y[at] = c.silu ? pre * s : pre;
        const double slope = c.silu ? s * (1 + pre * (1 - s)) : 1;
        const double g = p.grad_y[at] * slope;
        for (std::int64_t j = 0; j < W; ++j) {
          const auto w = static_cast<std::size_t>(ch * W + j);
          grad_in[static_cast<std::size_t>(t + j)] += p.weight[w] * g;
          r.grad_weight[w] += g * in[static_cast<std::size_t>(t + j)];
        }
      }
      for (std::int64_t i = 0; i < S; ++i) {
        const auto at = static_cast<std::size_t>((N * S + i) * C + ch);
        r.state_out[at] = in[static_cast<std::size_t>(length + i)];
        if (c.state) {
          grad_in[static_cast<std::size_t>(length + i)] += p.grad_state_out[at];
        }
      }
      for (std::int64_t i = 0; i < S + length; ++i) {
        const double grad = grad_in[static_cast<std::size_t>(i)];
        if (i < S) {
          r.grad_state_in[static_cast<std::size_t>((N * S + i) * C + ch)] =
              grad;
        } else {
          r.grad_x[static_cast<std::size_t>((begin + i - S) * C + ch)] = grad;
        }
      }
    }
  }
  return r;
}

/// Runs both directions and leaves the outputs in `fwd` and `bwd`.
void run(const Case& c, const Problem& p, OpRun& fwd, OpRun& bwd) {
  const std::int64_t T = p.cu_seqlens.back();
  const std::int64_t stride = c.channels + c.padding;
  const auto states = static_cast<std::int64_t>(p.state_in.size());
  const DeviceBuffer cu = on_device(p.cu_seqlens);
  const DeviceBuffer x = on_device(strided(p.x, c.channels, stride), c.element);
  const DeviceBuffer grad_y =
      on_device(strided(p.grad_y, c.channels, stride), c.element);
  const DeviceBuffer weight = on_device(p.weight, Element::kF32);
  const DeviceBuffer state_in = on_device(p.state_in, c.element);
  const DeviceBuffer grad_state_out = on_device(p.grad_state_out, c.element);

  ShortConvFwdParams f;
  f.shape = {T,          static_cast<std::int64_t>(c.lengths.size()),
             c.channels, c.width,
             c.silu,     c.element};
  f.cu_seqlens = cu.as<std::int64_t>();
  f.x = x.as<void>();
  f.x_stride = stride;
  f.weight = weight.as<float>();
  f.state_in = c.state ? state_in.as<void>() : nullptr;
  f.y = fwd.output("y", T * c.channels, c.element);
  f.state_out = fwd.output("state_out", states, c.element);
  fwd.run([&] { short_conv_fwd(f, nullptr); });

  ShortConvBwdParams b;
  b.shape = f.shape;
  b.cu_seqlens = f.cu_seqlens;
  b.x = f.x;
  b.x_stride = stride;
  b.weight = f.weight;
  b.state_in = f.state_in;
  b.grad_y = grad_y.as<void>();
  b.grad_y_stride = stride;
  b.grad_state_out = c.state ? grad_state_out.as<void>() : nullptr;
  b.grad_x = bwd.output("grad_x", T * c.channels, c.element);
  b.grad_weight =
      bwd.output<float>("grad_weight", c.channels * c.width, Element::kF32);
  b.grad_state_in = bwd.output("grad_state_in", states, c.element);
  b.workspace = bwd.workspace(short_conv_bwd_workspace_bytes(b));
  bwd.run([&] { short_conv_bwd(b, nullptr); });
}

void expect_right(const Case& c) {
  SCOPED_TRACE(std::string(name_of(c.element)) + " C " +
               std::to_string(c.channels) + " W " + std::to_string(c.width) +
               " documents " + std::to_string(c.lengths.size()) + " first " +
               std::to_string(c.lengths.front()) + (c.state ? " state" : "") +
               (c.silu ? " silu" : ""));
  const Problem p = problem_of(c, 7);
  const Result r = reference(c, p);
  OpRun fwd, bwd;
  run(c, p, fwd, bwd);
  const double bound = element_bound(c.element);
  fwd.expect("y", r.y, bound);
  fwd.expect("state_out", r.state_out, 0);
  bwd.expect("grad_x", r.grad_x, bound);
  bwd.expect("grad_weight", r.grad_weight, 5e-6);
  bwd.expect("grad_state_in", r.grad_state_in, bound);
}

TEST(ShortConvGpu, V4_documents_of_any_length) {
  Case c;
  for (const Element element : {Element::kBF16, Element::kF32}) {
    c.element = element;
    for (const bool state : {false, true}) {
      c.state = state;
      for (const auto& lengths : std::vector<std::vector<std::int64_t>>{
               {1},
               {64},
               {65},
               {200},
               {0, 0, 5, 0, 64, 63, 1, 2, 3, 0, 130, 0},
               {61, 3, 64, 1, 1, 1},
               {0, 0}}) {
        c.lengths = lengths;
        expect_right(c);
      }
    }
  }
}

TEST(ShortConvGpu, K5_widths_and_channels) {
  Case c;
  c.lengths = {70, 2, 0, 33};
  c.state = true;
  for (const Element element : {Element::kBF16, Element::kF32}) {
    c.element = element;
    for (int width = 2; width <= 8; ++width) {
      for (const std::int64_t channels : {1, 7, 12, 60, 136, 1024}) {
        if (channels == 1024 && width != 4) continue;
        c.width = width;
        c.channels = channels;
        c.silu = width % 2 == 0;
        expect_right(c);
      }
    }
  }
}

TEST(ShortConvGpu, K10_slices_of_wider_rows) {
  Case c;
  c.lengths = {40, 30};
  for (const Element element : {Element::kBF16, Element::kF32}) {
    c.element = element;
    for (const std::int64_t padding : {8, 3}) {
      c.padding = padding;
      expect_right(c);
    }
  }
}

TEST(ShortConvGpu, V1_documents_do_not_see_each_other) {
  Case c;
  c.lengths = {37, 90};
  Problem p = problem_of(c, 3);
  OpRun fwd[2], bwd[2];
  run(c, p, fwd[0], bwd[0]);
  Random random(11);
  const Values other = random.normal(37 * c.channels, c.element);
  std::copy(other.begin(), other.end(), p.x.begin());
  run(c, p, fwd[1], bwd[1]);
  const auto second = static_cast<std::ptrdiff_t>(37 * c.channels);
  const auto tail = [&](const OpRun& from, const char* name) {
    const Values all = from.values(name);
    return Values(all.begin() + second, all.end());
  };
  EXPECT_EQ(tail(fwd[0], "y"), tail(fwd[1], "y"));
  EXPECT_EQ(tail(bwd[0], "grad_x"), tail(bwd[1], "grad_x"));
  EXPECT_NE(fwd[0].bits("y"), fwd[1].bits("y"));
}

TEST(ShortConvGpu, V3_a_document_cut_in_two) {
  Case whole;
  whole.lengths = {50};
  whole.element = Element::kF32;
  const Problem p = problem_of(whole, 5);
  OpRun fwd, bwd;
  run(whole, p, fwd, bwd);
  for (const std::int64_t cut : {1, 2, 31, 49}) {
    // The parts, the first one's final state handed on.
    Case part = whole;
    part.state = true;
    const auto at = static_cast<std::ptrdiff_t>(cut * whole.channels);
    Values y, state(static_cast<std::size_t>(3 * whole.channels), 0.0);
    for (const bool first : {true, false}) {
      Problem q = p;
      q.x = first ? Values(p.x.begin(), p.x.begin() + at)
                  : Values(p.x.begin() + at, p.x.end());
      q.grad_y = q.x;
      q.state_in = state;
      q.grad_state_out = state;
      part.lengths = {first ? cut : 50 - cut};
      q.cu_seqlens = boundaries(part.lengths);
      OpRun f, b;
      run(part, q, f, b);
      const Values piece = f.values("y");
      y.insert(y.end(), piece.begin(), piece.end());
      state = f.values("state_out");
    }
    EXPECT_EQ(y, fwd.values("y")) << "cut after " << cut;
    EXPECT_EQ(state, fwd.values("state_out")) << "cut after " << cut;
  }
}

TEST(ShortConvGpu, refuses_what_it_cannot_do) {
  ShortConvFwdParams f;
  f.shape = {4, 1, 8, 9, true, Element::kBF16};
  EXPECT_STREQ(short_conv_fwd_unsupported(f), "width must be 2 to 8");
  EXPECT_THROW(short_conv_fwd(f, nullptr), std::runtime_error);
}

}  // namespace
}  // namespace osdn::test
