// The preconditioner on the GPU against the recurrence in float64, raw keys,
// every mode.

#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/op_run.h"
#include "kernels/preconditioner/preconditioner.cuh"

namespace osdn::test {
namespace {

using namespace kernels;

struct Case {
  std::vector<std::int64_t> lengths = {50};
  std::int64_t key_heads = 2, value_heads = 2, key_width = 128;
  Element element = Element::kBF16;
  double eta = 0.5, box_lo = 0.5, box_hi = 2;
  bool beta_aware = true, l2_norm = true, retention = false;
  bool d0_per_document = false, detach = false, addend = false;
  KeyEnergy energy = KeyEnergy::kFloor;
  std::int64_t padding = 0;
  double r_low = 0.9;
};

struct Problem {
  std::vector<std::int64_t> cu_seqlens;
  Values k, beta, r, d0, grad_k_write, grad_d_T, addend;
};

struct Result {
  Values k_write, d_T, d, grad_k, grad_beta, grad_r, grad_d0;
};

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

Problem problem_of(const Case& c, unsigned seed) {
  Random random(seed);
  Problem p;
  p.cu_seqlens = boundaries(c.lengths);
  const std::int64_t T = p.cu_seqlens.back(), HV = c.value_heads;
  const std::int64_t N = static_cast<std::int64_t>(c.lengths.size());
  const std::int64_t K = c.key_width;
  p.k = random.normal(T * c.key_heads * K, c.element,
                      c.l2_norm ? 1 : 1 / std::sqrt(double(K)));
  // Uneven energy drives channels to the box.
  for (std::size_t i = 0; i < p.k.size(); ++i) {
    if (i % at(K) < 3) p.k[i] = rounded(4 * p.k[i], c.element);
  }
  p.beta = random.uniform(T * HV, 0, 1.5);
  p.r = random.uniform(T * HV, c.r_low, 1);
  p.d0 = random.uniform((c.d0_per_document ? N : 1) * HV * K, 0.4, 1.6);
  p.grad_k_write = random.normal(T * HV * K, c.element);
  p.grad_d_T = random.normal(N * HV * K, Element::kF32);
  p.addend = random.normal(T * c.key_heads * K, c.element);
  return p;
}

/// Per chain, plain reverse mode. A clip mask is decided on the value rounded
/// to fp32: on the box, an update below half a unit of fp32 leaves d there.
Result reference(const Case& c, const Problem& p) {
  const std::int64_t T = p.cu_seqlens.back(), HV = c.value_heads;
  const std::int64_t H = c.key_heads, K = c.key_width;
  const std::int64_t N = static_cast<std::int64_t>(c.lengths.size());
  Result out;
  out.k_write.resize(at(T * HV * K));
  out.d.resize(at(T * HV * K));
  out.d_T.resize(at(N * HV * K));
  out.grad_k.assign(at(T * H * K), 0);
  out.grad_beta.assign(at(T * HV), 0);
  out.grad_r.assign(at(T * HV), 0);
  out.grad_d0.assign(p.d0.size(), 0);
  if (c.addend) out.grad_k = p.addend;
  for (std::int64_t n = 0; n < N; ++n) {
    for (std::int64_t h = 0; h < HV; ++h) {
      const std::int64_t begin = p.cu_seqlens[at(n)],
                         end = p.cu_seqlens[at(n + 1)];
      const std::int64_t start = ((c.d0_per_document ? n * HV : 0) + h) * K;
      const auto key = [&](std::int64_t t) {
        return (t * H + h / (HV / H)) * K;
      };
      struct Token {
        double scale, n, depends, s, a, beta, r;
      };
      std::vector<Token> tokens(at(end - begin));
      Values d(p.d0.begin() + start, p.d0.begin() + start + K);
      std::vector<Values> before;
      for (std::int64_t t = begin; t < end; ++t) {
        Token& token = tokens[at(t - begin)];
        double squares = 0;
        for (std::int64_t i = 0; i < K; ++i) {
          squares += p.k[at(key(t) + i)] * p.k[at(key(t) + i)];
        }
        token.scale = c.l2_norm ? 1 / std::sqrt(squares + 1e-6) : 1;
        const double energy = squares * token.scale * token.scale;
        token.n = c.energy == KeyEnergy::kFloor ? std::max(energy, 1e-6)
                  : c.energy == KeyEnergy::kAdd ? energy + 1e-5
                                                : 1;
        token.depends = c.energy == KeyEnergy::kAdd ||
                        (c.energy == KeyEnergy::kFloor && energy > 1e-6);
        token.beta = c.beta_aware ? p.beta[at(t * HV + h)] : 1;
        token.r = c.retention ? p.r[at(t * HV + h)] : 1;
        token.s = 0;
        for (std::int64_t i = 0; i < K; ++i) {
          const double k = p.k[at(key(t) + i)];
          out.k_write[at((t * HV + h) * K + i)] = d[at(i)] * k;
          out.d[at((t * HV + h) * K + i)] = d[at(i)];
          token.s += d[at(i)] * k * k * token.scale * token.scale;
        }
        token.a = c.eta * token.beta * (1 - token.beta * token.s) / token.n;
        before.push_back(d);
        for (std::int64_t i = 0; i < K; ++i) {
          const double kh = p.k[at(key(t) + i)] * token.scale;
          const double next = token.r * d[at(i)] + token.a * kh * kh;
          d[at(i)] = std::clamp(next, c.box_lo, c.box_hi);
        }
      }
      std::copy(d.begin(), d.end(), out.d_T.begin() + (n * HV + h) * K);

      Values lam(at(K), 0.0);
      if (!c.detach) {
        std::copy_n(p.grad_d_T.begin() + (n * HV + h) * K, K, lam.begin());
      }
      for (std::int64_t t = end - 1; t >= begin; --t) {
        const Token& token = tokens[at(t - begin)];
        const Values& dt = before[at(t - begin)];
        double pull = 0, grad_r = 0;
        for (std::int64_t i = 0; i < K; ++i) {
          const double kh = p.k[at(key(t) + i)] * token.scale;
          const double next =
              rounded(token.r * dt[at(i)] + token.a * kh * kh, Element::kF32);
          if (next < c.box_lo || next > c.box_hi) lam[at(i)] = 0;
          pull += lam[at(i)] * kh * kh;
          grad_r += lam[at(i)] * dt[at(i)];
        }
        out.grad_r[at(t * HV + h)] = grad_r;
        if (c.beta_aware) {
          out.grad_beta[at(t * HV + h)] =
              pull * c.eta * (1 - 2 * token.beta * token.s) / token.n;
        }
        const double ds = -pull * c.eta * token.beta * token.beta / token.n;
        const double dn = token.depends ? -pull * token.a / token.n : 0;
        Values grad_kh(at(K));
        double along = 0;
        for (std::int64_t i = 0; i < K; ++i) {
          const double kh = p.k[at(key(t) + i)] * token.scale;
          grad_kh[at(i)] =
              2 * kh * (token.a * lam[at(i)] + ds * dt[at(i)] + dn);
          along += kh * grad_kh[at(i)];
        }
        for (std::int64_t i = 0; i < K; ++i) {
          const double k = p.k[at(key(t) + i)], kh = k * token.scale;
          const double grad_kt = p.grad_k_write[at((t * HV + h) * K + i)];
          double grad = token.scale * grad_kh[at(i)];
          if (c.l2_norm) grad -= token.scale * kh * along;
          out.grad_k[at(key(t) + i)] += grad + grad_kt * dt[at(i)];
          lam[at(i)] =
              c.detach ? 0 : token.r * lam[at(i)] + ds * kh * kh + grad_kt * k;
        }
      }
      for (std::int64_t i = 0; i < K; ++i)
        out.grad_d0[at(start + i)] += lam[at(i)];
    }
  }
  return out;
}

/// `trace`, where given, gets d per token from a run of its own.
void run(const Case& c, const Problem& p, OpRun& fwd, OpRun& bwd,
         OpRun* trace = nullptr) {
  const std::int64_t T = p.cu_seqlens.back(), HV = c.value_heads;
  const std::int64_t N = static_cast<std::int64_t>(c.lengths.size());
  const std::int64_t K = c.key_width, row = c.key_heads * K;
  const DeviceBuffer cu = on_device(p.cu_seqlens);
  const DeviceBuffer k =
      on_device(strided(p.k, row, row + c.padding), c.element);
  const DeviceBuffer beta = on_device(p.beta, Element::kF32);
  const DeviceBuffer r = on_device(p.r, Element::kF32);
  const DeviceBuffer d0 = on_device(p.d0, Element::kF32);
  const DeviceBuffer grad_k_write = on_device(p.grad_k_write, c.element);
  const DeviceBuffer grad_d_T = on_device(p.grad_d_T, Element::kF32);
  const DeviceBuffer addend = on_device(p.addend, c.element);
  // Rows that no document owns stay as they were, so no output is checked.
  DeviceBuffer checkpoint(
      at(preconditioner_checkpoint_rows(T, N) * HV * K * 4));

  PreconditionerFwdParams f;
  f.shape.tokens = T;
  f.shape.documents = N;
  f.shape.key_heads = c.key_heads;
  f.shape.value_heads = HV;
  f.shape.key_width = K;
  f.shape.k_row_stride = c.padding == 0 ? 0 : row + c.padding;
  f.shape.element = c.element;
  f.shape.eta = static_cast<float>(c.eta);
  f.shape.box_lo = static_cast<float>(c.box_lo);
  f.shape.box_hi = static_cast<float>(c.box_hi);
  f.shape.beta_aware = c.beta_aware;
  f.shape.l2_norm = c.l2_norm;
  f.shape.d0_per_document = c.d0_per_document;
  f.shape.energy = c.energy;
  f.cu_seqlens = cu.as<std::int64_t>();
  f.k = k.as<void>();
  f.beta = c.beta_aware ? beta.as<float>() : nullptr;
  f.r = c.retention ? r.as<float>() : nullptr;
  f.d0 = d0.as<float>();
  f.k_write = fwd.output("k_write", T * HV * K, c.element);
  f.d_T = fwd.output<float>("d_T", N * HV * K, Element::kF32);
  f.s = fwd.output<float>("s", T * HV, Element::kF32);
  f.d_checkpoint = checkpoint.as<float>();
  fwd.run([&] { preconditioner_fwd(f, nullptr); });
  EXPECT_TRUE(checkpoint.guard_is_whole());
  if (trace != nullptr) {
    PreconditionerFwdParams t = f;
    t.s = t.d_checkpoint = t.d_T = nullptr;
    t.k_write = trace->output("k_write", T * HV * K, c.element);
    t.d_per_token = trace->output<float>("d", T * HV * K, Element::kF32);
    trace->run([&] { preconditioner_fwd(t, nullptr); });
  }

  PreconditionerBwdParams b;
  b.shape = f.shape;
  b.cu_seqlens = f.cu_seqlens;
  b.k = f.k;
  b.beta = f.beta;
  b.r = f.r;
  b.s = f.s;
  b.d_checkpoint = f.d_checkpoint;
  b.grad_k_write = grad_k_write.as<void>();
  b.grad_d_T = grad_d_T.as<float>();
  b.grad_k_addend = c.addend ? addend.as<void>() : nullptr;
  b.grad_k = bwd.output("grad_k", T * row, c.element);
  b.grad_beta = bwd.output<float>("grad_beta", T * HV, Element::kF32);
  if (c.retention) {
    b.grad_r = bwd.output<float>("grad_r", T * HV, Element::kF32);
  }
  b.grad_d0 = bwd.output<float>(
      "grad_d0", static_cast<std::int64_t>(p.d0.size()), Element::kF32);
  b.detach = c.detach;
  b.workspace = bwd.workspace(preconditioner_bwd_workspace_bytes(b));
  bwd.run([&] { preconditioner_bwd(b, nullptr); });
}

void expect_right(const Case& c) {
  SCOPED_TRACE(std::string(name_of(c.element)) + " K " +
               std::to_string(c.key_width) + " H " +
               std::to_string(c.key_heads) + " HV " +
               std::to_string(c.value_heads) + " documents " +
               std::to_string(c.lengths.size()) + " first " +
               std::to_string(c.lengths.front()));
  const Problem p = problem_of(c, 5);
  const Result r = reference(c, p);
  OpRun fwd, bwd, trace;
  run(c, p, fwd, bwd, &trace);
  const double bound = element_bound(c.element);
  fwd.expect("k_write", r.k_write, bound);
  trace.expect("k_write", r.k_write, bound);
  trace.expect("d", r.d, 5e-6);
  fwd.expect("d_T", r.d_T, 5e-6);
  bwd.expect("grad_k", r.grad_k, std::max(bound, 3e-5));
  bwd.expect("grad_beta", r.grad_beta, 2e-4);
  if (c.retention) bwd.expect("grad_r", r.grad_r, 2e-4);
  bwd.expect("grad_d0", r.grad_d0, 2e-4);
}

TEST(PreconditionerGpu, V4_documents_of_any_length) {
  Case c;
  for (const Element element : {Element::kBF16, Element::kF32}) {
    c.element = element;
    for (const bool retention : {false, true}) {
      c.retention = retention;
      for (const auto& lengths :
           std::vector<std::vector<std::int64_t>>{{1},
                                                  {15},
                                                  {16},
                                                  {17},
                                                  {0, 0, 5, 0, 33, 16, 1, 0},
                                                  {100},
                                                  {0, 0}}) {
        c.lengths = lengths;
        expect_right(c);
      }
    }
  }
}

TEST(PreconditionerGpu, K5_key_widths) {
  Case c;
  c.lengths = {21, 40};
  c.retention = true;
  for (const Element element : {Element::kBF16, Element::kF32}) {
    c.element = element;
    for (const std::int64_t width :
         {1, 7, 32, 60, 64, 97, 100, 128, 200, 256}) {
      c.key_width = width;
      expect_right(c);
    }
  }
}

TEST(PreconditionerGpu, K7_every_mode) {
  for (const Element element : {Element::kBF16, Element::kF32}) {
    for (int mode = 0; mode < 24; ++mode) {
      Case c;
      c.element = element;
      c.lengths = {40, 3, 18};
      c.key_width = 64;
      c.beta_aware = mode % 2 == 0;
      c.energy = static_cast<KeyEnergy>(mode / 2 % 3);
      c.l2_norm = mode / 6 % 2 == 0;
      c.retention = mode / 12 % 2 == 0;
      c.d0_per_document = mode % 3 == 0;
      c.addend = mode % 4 == 1;
      c.detach = mode % 5 == 4;
      c.padding = mode % 3 == 1 ? 8 : mode % 3 == 2 ? 1 : 0;
      expect_right(c);
    }
  }
}

TEST(PreconditionerGpu, grouped_value_heads) {
  for (const Element element : {Element::kBF16, Element::kF32}) {
    for (const bool addend : {false, true}) {
      Case c;
      c.element = element;
      c.lengths = {37, 0, 12};
      c.key_heads = 2;
      c.value_heads = 6;
      c.addend = addend;
      expect_right(c);
    }
  }
}

TEST(PreconditionerGpu, on_the_box) {
  Case c;
  c.lengths = {300};
  c.retention = true;
  c.r_low = 0.95;
  c.element = Element::kF32;
  const Problem p = problem_of(c, 5);
  const Result r = reference(c, p);
  std::int64_t boxed = 0;
  for (const double d : r.d) boxed += d <= c.box_lo || d >= c.box_hi ? 1 : 0;
  EXPECT_GT(boxed, static_cast<std::int64_t>(r.d.size() / 4));
  expect_right(c);
}

TEST(PreconditionerGpu, eta_zero_leaves_the_key_bitwise) {
  for (const Element element : {Element::kBF16, Element::kF32}) {
    Case c;
    c.element = element;
    c.lengths = {70, 5};
    c.eta = 0;
    Problem p = problem_of(c, 2);
    std::fill(p.d0.begin(), p.d0.end(), 1.0);
    OpRun fwd, bwd;
    run(c, p, fwd, bwd);
    EXPECT_EQ(fwd.values("k_write"), p.k);
  }
}

TEST(PreconditionerGpu, V1_documents_do_not_see_each_other) {
  Case c;
  c.lengths = {37, 60};
  c.retention = true;
  c.d0_per_document = true;
  Problem p = problem_of(c, 3);
  OpRun fwd[2], bwd[2];
  run(c, p, fwd[0], bwd[0]);
  Random random(11);
  const std::int64_t row = c.key_heads * c.key_width;
  const Values other = random.normal(37 * row, c.element);
  std::copy(other.begin(), other.end(), p.k.begin());
  run(c, p, fwd[1], bwd[1]);
  const auto tail = [&](const OpRun& from, const char* name,
                        std::int64_t first) {
    const Values all = from.values(name);
    return Values(all.begin() + first, all.end());
  };
  EXPECT_EQ(tail(fwd[0], "k_write", 37 * row),
            tail(fwd[1], "k_write", 37 * row));
  EXPECT_EQ(tail(bwd[0], "grad_k", 37 * row), tail(bwd[1], "grad_k", 37 * row));
  EXPECT_EQ(tail(bwd[0], "grad_d0", row), tail(bwd[1], "grad_d0", row));
  EXPECT_NE(fwd[0].bits("k_write"), fwd[1].bits("k_write"));
}

TEST(PreconditionerGpu, K3_later_tokens_change_nothing_before) {
  Case c;
  c.lengths = {40};
  Problem p = problem_of(c, 3);
  OpRun fwd[2], bwd[2];
  run(c, p, fwd[0], bwd[0]);
  const std::int64_t row = c.key_heads * c.key_width;
  for (std::size_t i = at(21 * row); i < p.k.size(); ++i)
    p.k[i] = rounded(1 - p.k[i], c.element);
  run(c, p, fwd[1], bwd[1]);
  const Values a = fwd[0].values("k_write"), b = fwd[1].values("k_write");
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + 21 * row, b.begin()));
  EXPECT_FALSE(a == b);
}

TEST(PreconditionerGpu, a_nan_beta_is_not_clipped_away) {
  Case c;
  c.lengths = {20};
  const Problem p = problem_of(c, 3);
  Problem bad = p;
  bad.beta[4] = std::nan("");
  OpRun fwd, bwd;
  run(c, bad, fwd, bwd);
  const Values d_T = fwd.values("d_T");
  EXPECT_TRUE(std::any_of(d_T.begin(), d_T.end(),
                          [](double x) { return std::isnan(x); }));
}

TEST(PreconditionerGpu, refuses_what_it_cannot_do) {
  PreconditionerFwdParams f;
  f.shape.key_heads = 2;
  f.shape.value_heads = 3;
  f.shape.key_width = 64;
  EXPECT_STREQ(preconditioner_fwd_unsupported(f),
               "value_heads must be a positive multiple of key_heads");
  f.shape.value_heads = 4;
  f.shape.key_width = 257;
  EXPECT_STREQ(preconditioner_fwd_unsupported(f), "key_width must be 1 to 256");
}

}  // namespace
}  // namespace osdn::test
