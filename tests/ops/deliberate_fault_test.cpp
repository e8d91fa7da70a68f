// K12: the comparisons of these tests must fail when something is wrong. Each
// fault is put into the reference, which then has to disagree with the
// operators; and each single tensor that is off by a little is named.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "ops/operator_cases.h"
#include "ops/run_operators.h"

namespace osdn::test {
namespace {

// The looser of the tolerances that the tests of both operators use.
constexpr double kFp64 = 1e-11;
constexpr double kFp32 = 2e-5;

/// Row t becomes row t - 1; the first stays.
void shift_rows(Values& values, std::int64_t row) {
  values.insert(values.begin(), values.begin(), values.begin() + row);
  values.resize(values.size() - static_cast<std::size_t>(row));
}

template <typename Data>
struct Fault {
  const char* name;
  std::function<void(Data&)> put;
};

TEST(DeliberateFault, K12_in_the_delta_rule_is_detected) {
  const std::vector<Fault<DeltaRuleData>> faults = {
      {"no decay", [](DeltaRuleData& d) { d.in.g.clear(); }},
      {"decay one token late",
       [](DeltaRuleData& d) { shift_rows(d.in.g, 4 * 16); }},
      {"decay of one channel missing",
       [](DeltaRuleData& d) {
         for (std::size_t i = 5; i < d.in.g.size(); i += 4 * 16) d.in.g[i] = 0;
       }},
      {"raw key is written", [](DeltaRuleData& d) { d.in.k_write.clear(); }},
      {"write strength one token late",
       [](DeltaRuleData& d) { shift_rows(d.in.beta, 4); }},
      {"error of the wrong sign",
       [](DeltaRuleData& d) {
         for (double& beta : d.in.beta) beta = -beta;
       }},
      {"start state ignored", [](DeltaRuleData& d) { d.in.state0.clear(); }},
      {"no normalisation", [](DeltaRuleData& d) { d.in.l2_norm = false; }},
      {"gradient of the final state dropped",
       [](DeltaRuleData& d) { d.grad_state_T.clear(); }},
      {"last token dropped",
       [](DeltaRuleData& d) {
         for (std::size_t i = d.in.beta.size() - 4; i < d.in.beta.size(); ++i) {
           d.in.beta[i] = 0;
         }
       }},
      {"value heads matched with the other key head",
       [](DeltaRuleData& d) {
         Values swapped(d.in.q.size());
         for (std::size_t i = 0; i < swapped.size(); ++i) {
           swapped[i] = d.in.q[i ^ 16u];  // two heads of 16 channels
         }
         d.in.q = swapped;
       }},
      {"boundary one token off",
       [](DeltaRuleData& d) { ++d.in.cu_seqlens[1]; }},
      {"gradient of the output not scaled",
       [](DeltaRuleData& d) {
         for (double& x : d.grad_o) x *= 4;  // K^-1/2 = 1/4
       }},
  };
  DeltaRuleCase c;
  c.H = 2;
  c.HV = 4;
  c.K = 16;
  c.V = 8;
  c.lengths = {70, 31};
  c.gate = Gate::kChannel;
  const DeltaRuleData data = make_delta_rule(c);
  for (Precision precision : {Precision::kFp64, Precision::kFp32}) {
    RunOptions options;
    options.precision = precision;
    const double tolerance = precision == Precision::kFp64 ? kFp64 : kFp32;
    const Results got =
        run_delta_rule(data.in, data.grad_o, data.grad_state_T, options);
    EXPECT_EQ(
        differences(
            got, reference_delta_rule(data.in, data.grad_o, data.grad_state_T),
            tolerance),
        "");
    for (const auto& fault : faults) {
      DeltaRuleData faulty = data;
      fault.put(faulty);
      Results other =
          reference_delta_rule(faulty.in, faulty.grad_o, faulty.grad_state_T);
      // Absent inputs have no gradient; what is left must still differ.
      std::erase_if(other, [&](const NamedValues& r) {
        return named(got, r.name).size() != r.values.size();
      });
      const std::string found = differences(got, other, tolerance);
      EXPECT_NE(found.find("grad_"), std::string::npos) << fault.name;
    }
  }
}

TEST(DeliberateFault, K12_in_the_preconditioner_is_detected) {
  using In = reference::PreconditionerInput;
  const auto put = [](auto change) {
    return [change](PreconditionerData& d) { change(d.in.recurrence); };
  };
  const std::vector<Fault<PreconditionerData>> faults = {
      {"ascent instead of descent", put([](In& in) { in.eta = -in.eta; })},
      {"a learning rate 1 % off", put([](In& in) { in.eta *= 1.01; })},
      {"write strength ignored", put([](In& in) { in.beta_aware = false; })},
      {"no retention", put([](In& in) { in.r.assign(in.r.size(), 1.0); })},
      {"retention one token late", put([](In& in) { shift_rows(in.r, 2); })},
      {"no lower bound", put([](In& in) { in.box_lo = -1e9; })},
      {"no upper bound", put([](In& in) { in.box_hi = 1e9; })},
      {"energy not divided by",
       put([](In& in) { in.energy = reference::KeyEnergy::kOff; })},
      {"energy added to",
       put([](In& in) { in.energy = reference::KeyEnergy::kAdd; })},
      {"start of the other document", put([](In& in) {
         std::rotate(in.d0.begin(), in.d0.begin() + 2 * 12, in.d0.end());
       })},
      {"boundary one token off", put([](In& in) { ++in.cu_seqlens[1]; })},
      {"gradient through d dropped",
       [](PreconditionerData& d) { d.in.detach = true; }},
      {"gradient of the final d dropped",
       [](PreconditionerData& d) { d.grad_d_T.clear(); }},
  };
  PreconditionerCase c;
  c.HV = 2;
  c.K = 12;
  c.lengths = {70, 31};
  c.eta = 1;
  c.lo = 0.7;
  c.hi = 1.3;
  c.retention = true;
  c.l2_norm = false;
  c.key_scale = 0.2;
  c.per_document = true;
  const PreconditionerData data = make_preconditioner(c);
  for (Precision precision : {Precision::kFp64, Precision::kFp32}) {
    RunOptions options;
    options.precision = precision;
    const double tolerance = precision == Precision::kFp64 ? kFp64 : kFp32;
    const Results got =
        run_preconditioner(data.in, data.grad_k_write, data.grad_d_T, options);
    EXPECT_EQ(differences(got,
                          reference_preconditioner(data.in, data.grad_k_write,
                                                   data.grad_d_T),
                          tolerance),
              "");
    for (const auto& fault : faults) {
      PreconditionerData faulty = data;
      fault.put(faulty);
      const std::string found =
          differences(got,
                      reference_preconditioner(faulty.in, faulty.grad_k_write,
                                               faulty.grad_d_T),
                      tolerance);
      EXPECT_NE(found.find("grad_"), std::string::npos) << fault.name;
    }
  }
}

TEST(DeliberateFault, K12_one_tensor_a_little_off_is_named_alone) {
  DeltaRuleCase c;
  c.gate = Gate::kHead;
  const DeltaRuleData data = make_delta_rule(c);
  const Results expected =
      reference_delta_rule(data.in, data.grad_o, data.grad_state_T);
  RunOptions options;
  options.precision = Precision::kFp32;
  Results got =
      run_delta_rule(data.in, data.grad_o, data.grad_state_T, options);
  for (NamedValues& result : got) {
    const Values good = result.values;
    for (double& x : result.values) x *= 1.001;
    const std::string found = differences(got, expected, kFp32);
    EXPECT_EQ(found.rfind(result.name + ": ", 0), 0u) << found;
    EXPECT_EQ(std::count(found.begin(), found.end(), '\n'), 1) << found;
    result.values = good;
    result.values[result.values.size() / 2] = std::nan("");
    EXPECT_NE(differences(got, expected, kFp32), "") << result.name;
    result.values = good;
  }
}

}  // namespace
}  // namespace osdn::test
