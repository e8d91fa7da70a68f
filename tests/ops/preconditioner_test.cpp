// The preconditioner against the float64 step-by-step reference: d at every
// token, the write key, the final d and every gradient, with all options.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ops/operator_cases.h"
#include "ops/run_operators.h"

namespace osdn::test {
namespace {

constexpr double kFp64 = 1e-12;
constexpr double kFp32 = 2e-5;

void expect_reference(const PreconditionerData& data, double fp64 = kFp64,
                      double fp32 = kFp32) {
  const Results expected =
      reference_preconditioner(data.in, data.grad_k_write, data.grad_d_T);
  RunOptions options;
  EXPECT_EQ(differences(run_preconditioner(data.in, data.grad_k_write,
                                           data.grad_d_T, options),
                        expected, fp64),
            "")
      << "in fp64";
  options.precision = Precision::kFp32;
  EXPECT_EQ(differences(run_preconditioner(data.in, data.grad_k_write,
                                           data.grad_d_T, options),
                        expected, fp32),
            "")
      << "in fp32";
}

/// Share of d's entries that lie on the box.
double share_on_box(const PreconditionerData& data) {
  const Values d = reference::key_write_forward(data.in).d;
  double count = 0;
  for (double x : d) {
    count += x == data.in.recurrence.box_lo || x == data.in.recurrence.box_hi;
  }
  return count / static_cast<double>(d.size());
}

TEST(Preconditioner, K5_every_width_matches_the_reference) {
  for (std::int64_t K : {1, 8, 20, 32, 60, 64, 100, 128, 256}) {
    SCOPED_TRACE(testing::Message() << "K = " << K);
    PreconditionerCase c;
    c.H = 2;
    c.HV = 4;
    c.K = K;
    c.lengths = {0, 1, 79};
    c.retention = true;
    // Unit keys move every channel of a wide key little.
    c.eta = K < 32 ? 0.1 : 1;
    c.seed = static_cast<std::uint64_t>(K);
    expect_reference(make_preconditioner(c));
  }
}

TEST(Preconditioner, V4_every_length_matches_the_reference) {
  const std::vector<std::vector<std::int64_t>> packings = {
      {0},         {1},      {2},   {15},  {63},
      {64},        {65},     {127}, {300}, {0, 0, 5, 0, 4},
      {64, 1, 63}, {103, 39}};
  for (const auto& lengths : packings) {
    for (bool per_document : {false, true}) {
      SCOPED_TRACE(testing::PrintToString(lengths));
      PreconditionerCase c;
      c.HV = 3;
      c.lengths = lengths;
      c.retention = true;
      c.per_document = per_document;
      expect_reference(make_preconditioner(c));
    }
  }
}

TEST(Preconditioner, every_combination_of_options_matches_the_reference) {
  using reference::KeyEnergy;
  for (KeyEnergy energy :
       {KeyEnergy::kFloor, KeyEnergy::kOff, KeyEnergy::kAdd}) {
    for (int mask = 0; mask < 32; ++mask) {
      SCOPED_TRACE(testing::Message()
                   << "norm " << static_cast<int>(energy) << ", mask " << mask);
      PreconditionerCase c;
      c.H = 2;
      c.HV = 2;
      c.K = 12;
      c.lengths = {70, 3};
      c.energy = energy;
      c.beta_aware = (mask & 1) != 0;
      c.detach = (mask & 2) != 0;
      c.retention = (mask & 4) != 0;
      c.l2_norm = (mask & 8) != 0;
      c.per_document = (mask & 16) != 0;
      c.key_scale = c.l2_norm ? 1 : 0.25;
      PreconditionerData data = make_preconditioner(c);
      expect_reference(data);
      data.grad_d_T.clear();
      expect_reference(data);
    }
  }
}

TEST(Preconditioner, the_last_d_alone_has_gradients) {
  PreconditionerCase c;
  c.lengths = {70, 5};
  c.retention = true;
  PreconditionerData data = make_preconditioner(c);
  data.grad_k_write.clear();
  expect_reference(data);
}

TEST(Preconditioner, tiny_keys_below_the_floor_of_their_energy) {
  for (double scale : {1e-5, 1e-4, 3e-4}) {
    SCOPED_TRACE(scale);
    PreconditionerCase c;
    c.K = 16;
    c.l2_norm = false;
    c.key_scale = scale;
    c.eta = 1;
    c.retention = true;
    expect_reference(make_preconditioner(c));
  }
}

TEST(Preconditioner, zero_keys_leave_d_and_its_gradients_finite) {
  PreconditionerCase c;
  c.retention = true;
  PreconditionerData data = make_preconditioner(c);
  for (std::int64_t t : {0, 7, 39}) {
    for (std::int64_t i = t * c.K; i < (t + 1) * c.K; ++i) {
      data.in.recurrence.k[static_cast<std::size_t>(i)] = 0;
    }
  }
  expect_reference(data);
}

TEST(Preconditioner, channels_on_the_box_pass_no_gradient) {
  PreconditionerCase c;
  c.lengths = {160};
  c.eta = 0.003;
  c.retention = true;
  c.r_lo = 0.95;
  c.r_hi = 0.99;
  const PreconditionerData data = make_preconditioner(c);
  EXPECT_GT(share_on_box(data), 0.8);
  expect_reference(data);
}

TEST(Preconditioner, channels_on_both_sides_of_a_narrow_box) {
  PreconditionerCase c;
  c.K = 8;
  c.lengths = {130};
  c.eta = 2;
  c.lo = 0.9;
  c.hi = 1.1;
  c.beta_hi = 2;
  const PreconditionerData data = make_preconditioner(c);
  EXPECT_GT(share_on_box(data), 0.3);
  EXPECT_LT(share_on_box(data), 0.99);
  expect_reference(data);
}

TEST(Preconditioner, a_start_outside_the_box_is_used_then_clipped) {
  PreconditionerCase c;
  c.lengths = {5};
  PreconditionerData data = make_preconditioner(c);
  for (double& d : data.in.recurrence.d0) d = 3;
  expect_reference(data);
}

TEST(Preconditioner, an_empty_document_hands_its_start_on) {
  PreconditionerCase c;
  c.lengths = {0, 5, 0};
  c.per_document = true;
  const PreconditionerData data = make_preconditioner(c);
  const Results got =
      run_preconditioner(data.in, data.grad_k_write, data.grad_d_T);
  for (std::int64_t n : {0, 2}) {
    EXPECT_EQ(rows_of(named(got, "d_T"), n, n + 1, c.K),
              rows_of(data.in.recurrence.d0, n, n + 1, c.K));
    EXPECT_EQ(rows_of(named(got, "grad_d0"), n, n + 1, c.K),
              rows_of(data.grad_d_T, n, n + 1, c.K));
  }
}

TEST(Preconditioner, K2_K10_strided_inputs_and_gradients_change_no_bit) {
  PreconditionerCase c;
  c.H = 2;
  c.HV = 4;
  c.K = 20;
  c.lengths = {67, 0, 1, 30};
  c.retention = true;
  for (bool per_document : {false, true}) {
    for (Precision precision : {Precision::kFp64, Precision::kFp32}) {
      c.per_document = per_document;
      const PreconditionerData data = make_preconditioner(c);
      RunOptions options;
      options.precision = precision;
      const Results plain = run_preconditioner(data.in, data.grad_k_write,
                                               data.grad_d_T, options);
      for (Layout layout : {Layout::kTransposed, Layout::kSliced}) {
        options.layout = layout;
        EXPECT_EQ(bit_differences(run_preconditioner(data.in, data.grad_k_write,
                                                     data.grad_d_T, options),
                                  plain),
                  "");
      }
    }
  }
}

TEST(Preconditioner, K10_upstream_gradient_of_zero_stride) {
  PreconditionerCase c;
  c.lengths = {70, 5};
  const PreconditionerData data = make_preconditioner(c);
  RunOptions options;
  options.expanded_upstream = true;
  EXPECT_EQ(bit_differences(run_preconditioner(data.in, {}, {}, options),
                            run_preconditioner(
                                data.in, Values(data.grad_k_write.size(), 1.0),
                                Values(data.grad_d_T.size(), 1.0))),
            "");
}

}  // namespace
}  // namespace osdn::test
