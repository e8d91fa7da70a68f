// What must hold to the bit: repetition, thread counts, other documents, later
// tokens, the special cases of the recurrence; and sequences cut in pieces.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ops/operator_cases.h"
#include "ops/run_operators.h"

namespace osdn::test {
namespace {

constexpr Gate kGates[] = {Gate::kNone, Gate::kHead, Gate::kChannel};
constexpr Precision kPrecisions[] = {Precision::kFp64, Precision::kFp32};

DeltaRuleCase delta_rule_case(Gate gate) {
  DeltaRuleCase c;
  c.H = 2;
  c.HV = 4;
  c.K = 24;
  c.V = 20;
  c.lengths = {70, 33, 90};
  c.gate = gate;
  return c;
}

PreconditionerCase preconditioner_case() {
  PreconditionerCase c;
  c.H = 2;
  c.HV = 4;
  c.K = 24;
  c.lengths = {70, 33, 90};
  c.retention = true;
  return c;
}

ShortConvInput short_conv_input(std::int64_t taps) {
  ShortConvInput in;
  in.channels = 70;
  in.taps = taps;
  in.cu_seqlens = packed({70, 33, 90});
  in.x = normal_values(1, in.cu_seqlens.back() * in.channels);
  in.weight = normal_values(2, in.channels * taps);
  in.state0 = normal_values(3, 3 * in.channels * (taps - 1));
  return in;
}

RunOptions with(Precision precision, int threads = 1) {
  RunOptions options;
  options.precision = precision;
  options.threads = threads;
  return options;
}

TEST(Exactness, repeated_runs_and_thread_counts_change_no_bit) {
  for (Precision precision : kPrecisions) {
    for (Gate gate : kGates) {
      const DeltaRuleData data = make_delta_rule(delta_rule_case(gate));
      const auto run = [&](int threads) {
        return run_delta_rule(data.in, data.grad_o, data.grad_state_T,
                              with(precision, threads));
      };
      const Results one = run(1);
      for (int threads : {1, 2, 2, 3}) {
        EXPECT_EQ(bit_differences(run(threads), one), "") << threads;
      }
    }
    const PreconditionerData data = make_preconditioner(preconditioner_case());
    const Results one = run_preconditioner(data.in, data.grad_k_write,
                                           data.grad_d_T, with(precision, 1));
    EXPECT_EQ(
        bit_differences(run_preconditioner(data.in, data.grad_k_write,
                                           data.grad_d_T, with(precision, 2)),
                        one),
        "");
    const ShortConvInput conv = short_conv_input(4);
    const Values grad_y =
        normal_values(4, static_cast<std::int64_t>(conv.x.size()));
    EXPECT_EQ(
        bit_differences(run_short_conv(conv, grad_y, {}, with(precision, 2)),
                        run_short_conv(conv, grad_y, {}, with(precision, 1))),
        "");
  }
}

/// Replaces rows [first, last) by other numbers.
void disturb(Values& values, std::int64_t first, std::int64_t last,
             std::int64_t row) {
  for (std::int64_t i = first * row; i < last * row; ++i) {
    auto& x = values[static_cast<std::size_t>(i)];
    x = static_cast<float>(0.3 * x - 0.11);
  }
}

/// Tokens [first, last) of every input; gates stay <= 0.
void disturb_tokens(reference::DeltaRuleInput& in, std::int64_t first,
                    std::int64_t last) {
  const std::int64_t keys = in.key_heads * in.key_width;
  disturb(in.q, first, last, keys);
  disturb(in.k, first, last, keys);
  disturb(in.k_write, first, last, in.value_heads * in.key_width);
  disturb(in.v, first, last, in.value_heads * in.value_width);
  disturb(in.beta, first, last, in.value_heads);
  if (!in.g.empty()) {
    disturb(in.g, first, last,
            static_cast<std::int64_t>(in.g.size()) / in.tokens());
  }
}

/// Rows [first, last) of all results whose first dimension has `count` rows.
Results rows_of_all(const Results& results, std::int64_t count,
                    std::int64_t first, std::int64_t last,
                    const std::vector<std::string>& names) {
  Results out;
  for (const std::string& name : names) {
    const Values& values = named(results, name);
    const std::int64_t row = static_cast<std::int64_t>(values.size()) / count;
    out.push_back({name, rows_of(values, first, last, row)});
  }
  return out;
}

TEST(Exactness, V1_other_documents_change_no_bit_of_one) {
  for (Precision precision : kPrecisions) {
    for (Gate gate : kGates) {
      DeltaRuleData data = make_delta_rule(delta_rule_case(gate));
      const auto run = [&] {
        const Results all = run_delta_rule(data.in, data.grad_o,
                                           data.grad_state_T, with(precision));
        std::vector<std::string> of_tokens{
            "o", "grad_q", "grad_k", "grad_k_write", "grad_v", "grad_beta"};
        if (gate != Gate::kNone) of_tokens.push_back("grad_g");
        Results middle = rows_of_all(all, data.in.tokens(), 70, 103, of_tokens);
        for (NamedValues& state :
             rows_of_all(all, 3, 1, 2, {"state_T", "grad_state0"})) {
          middle.push_back(std::move(state));
        }
        return middle;
      };
      const Results before = run();
      for (const auto& [first, last] :
           {std::pair<std::int64_t, std::int64_t>{0, 70}, {103, 193}}) {
        disturb_tokens(data.in, first, last);
        disturb(data.grad_o, first, last, 4 * 20);
      }
      disturb(data.in.state0, 0, 1, 4 * 24 * 20);
      disturb(data.grad_state_T, 2, 3, 4 * 24 * 20);
      EXPECT_EQ(bit_differences(run(), before), "");
    }

    PreconditionerCase c = preconditioner_case();
    c.per_document = true;
    PreconditionerData pre = make_preconditioner(c);
    const auto run_pre = [&] {
      const Results all = run_preconditioner(pre.in, pre.grad_k_write,
                                             pre.grad_d_T, with(precision));
      Results middle = rows_of_all(
          all, 193, 70, 103, {"k_write", "d", "grad_k", "grad_beta", "grad_r"});
      middle.push_back(rows_of_all(all, 3, 1, 2, {"d_T"})[0]);
      middle.push_back(rows_of_all(all, 3, 1, 2, {"grad_d0"})[0]);
      return middle;
    };
    const Results before = run_pre();
    reference::PreconditionerInput& in = pre.in.recurrence;
    for (const auto& [first, last] :
         {std::pair<std::int64_t, std::int64_t>{0, 70}, {103, 193}}) {
      disturb(in.k, first, last, 2 * 24);
      disturb(in.beta, first, last, 4);
      disturb(in.r, first, last, 4);
      disturb(pre.grad_k_write, first, last, 4 * 24);
    }
    disturb(in.d0, 0, 1, 4 * 24);
    EXPECT_EQ(bit_differences(run_pre(), before), "");

    ShortConvInput conv = short_conv_input(4);
    Values grad_y = normal_values(4, static_cast<std::int64_t>(conv.x.size()));
    const auto run_conv = [&] {
      const Results all = run_short_conv(conv, grad_y, Values(3 * 70 * 3, 0.25),
                                         with(precision));
      Results middle = rows_of_all(all, 193, 70, 103, {"y", "grad_x"});
      middle.push_back(rows_of_all(all, 3, 1, 2, {"state_T"})[0]);
      middle.push_back(rows_of_all(all, 3, 1, 2, {"grad_state0"})[0]);
      return middle;
    };
    const Results conv_before = run_conv();
    disturb(conv.x, 0, 70, 70);
    disturb(conv.x, 103, 193, 70);
    disturb(grad_y, 0, 70, 70);
    disturb(grad_y, 103, 193, 70);
    EXPECT_EQ(bit_differences(run_conv(), conv_before), "");
  }
}

TEST(Exactness, K3_later_tokens_change_no_bit_of_earlier_outputs) {
  for (Precision precision : kPrecisions) {
    for (std::int64_t t : {1, 5, 16, 31, 40, 63, 64, 69}) {
      for (Gate gate : kGates) {
        DeltaRuleCase c = delta_rule_case(gate);
        c.lengths = {70};
        c.gate_lo = -3;
        DeltaRuleData data = make_delta_rule(c);
        const auto run = [&] {
          return rows_of_all(run_delta_rule(data.in, {}, {}, with(precision)),
                             70, 0, t, {"o"});
        };
        const Results before = run();
        disturb_tokens(data.in, t, 70);
        EXPECT_EQ(bit_differences(run(), before), "") << t;
      }
      PreconditionerCase c = preconditioner_case();
      c.lengths = {70};
      PreconditionerData pre = make_preconditioner(c);
      const auto run = [&] {
        return rows_of_all(run_preconditioner(pre.in, {}, {}, with(precision)),
                           70, 0, t, {"k_write", "d"});
      };
      const Results before = run();
      disturb(pre.in.recurrence.k, t, 70, 2 * 24);
      disturb(pre.in.recurrence.beta, t, 70, 4);
      EXPECT_EQ(bit_differences(run(), before), "") << t;
    }
  }
}

// ---- special cases of the recurrence, math.md 2 ---------------------------

TEST(Exactness, without_learning_the_write_key_is_the_key) {
  for (Precision precision : kPrecisions) {
    PreconditionerCase c = preconditioner_case();
    c.eta = 0;
    c.retention = false;
    PreconditionerData pre = make_preconditioner(c);
    pre.in.recurrence.d0.assign(pre.in.recurrence.d0.size(), 1.0);
    for (Gate gate : kGates) {
      DeltaRuleCase dc = delta_rule_case(gate);
      dc.k_write = false;
      DeltaRuleData data = make_delta_rule(dc);
      pre.in.recurrence.k = data.in.k;
      pre.in.recurrence.beta = data.in.beta;
      const Results baseline = run_delta_rule(data.in, {}, {}, with(precision));
      const Results layer =
          run_layer_core(data.in, pre.in, {}, {}, with(precision));
      EXPECT_EQ(bit_differences(layer, baseline), "");
    }
  }
}

TEST(Exactness, a_zero_gate_is_no_gate) {
  for (Precision precision : kPrecisions) {
    for (std::int64_t K : {1, 24, 60}) {
      DeltaRuleCase c = delta_rule_case(Gate::kNone);
      c.K = K;
      const DeltaRuleData none = make_delta_rule(c);
      const Results expected = run_delta_rule(
          none.in, none.grad_o, none.grad_state_T, with(precision));
      for (std::int64_t width : {std::int64_t{1}, K}) {
        DeltaRuleData zero = none;
        zero.in.g.assign(zero.in.beta.size() * static_cast<std::size_t>(width),
                         0.0);
        EXPECT_EQ(
            bit_differences(run_delta_rule(zero.in, zero.grad_o,
                                           zero.grad_state_T, with(precision)),
                            expected),
            "")
            << "K = " << K << ", gate of " << width;
      }
    }
  }
}

// A gate per head multiplies whole dot products, one per channel each of their
// terms: equal in exact arithmetic, not in rounding.
TEST(Exactness, a_gate_repeated_over_channels_is_the_gate_per_head) {
  for (Precision precision : kPrecisions) {
    const DeltaRuleData head = make_delta_rule(delta_rule_case(Gate::kHead));
    DeltaRuleData channel = head;
    channel.in.g.clear();
    for (double g : head.in.g) channel.in.g.insert(channel.in.g.end(), 24, g);
    const Results expected = run_delta_rule(head.in, head.grad_o,
                                            head.grad_state_T, with(precision));
    Results got = run_delta_rule(channel.in, channel.grad_o,
                                 channel.grad_state_T, with(precision));
    for (NamedValues& result : got) {
      if (result.name != "grad_g") continue;
      Values sums(head.in.g.size(), 0.0);
      for (std::size_t i = 0; i < result.values.size(); ++i) {
        sums[i / 24] += result.values[i];
      }
      result.values = sums;
    }
    EXPECT_EQ(differences(got, expected,
                          precision == Precision::kFp64 ? 1e-13 : 1e-5),
              "");
  }
}

// ---- V3: a sequence cut in pieces --------------------------------------

/// Boundaries of pieces of `length` tokens; 0: lengths 1, 2, 3, ...
std::vector<std::int64_t> cuts(std::int64_t tokens, std::int64_t length) {
  std::vector<std::int64_t> at{0};
  for (std::int64_t n = 1; at.back() < tokens; ++n) {
    at.push_back(std::min(tokens, at.back() + (length > 0 ? length : n)));
  }
  return at;
}

void append(Values& to, const Values& from) {
  to.insert(to.end(), from.begin(), from.end());
}
void prepend(Values& to, const Values& from) {
  to.insert(to.begin(), from.begin(), from.end());
}

/// The whole sequence as pieces: states carried forwards, their gradients
/// backwards. `piece` cuts the inputs, `run` runs one piece.
struct Pieces {
  std::vector<std::string> of_tokens;  ///< results that are concatenated
  std::vector<std::string> summed;     ///< gradients that add up
  std::string output, state, start;    ///< names: o, state_T, state0
};

template <typename Input, typename Cut, typename Run>
Results run_in_pieces(const Pieces& names, const std::vector<std::int64_t>& at,
                      const Cut& cut, const Run& run, Values state,
                      Values grad_state) {
  std::vector<Input> inputs;
  Results total{{names.output, {}}};
  for (std::size_t i = 0; i + 1 < at.size(); ++i) {
    inputs.push_back(cut(at[i], at[i + 1], state));
    const Results out = run(inputs.back(), at[i], at[i + 1], Values{});
    append(total[0].values, named(out, names.output));
    state = named(out, names.state);
  }
  total.push_back({names.state, state});
  for (const std::string& name : names.of_tokens) total.push_back({name, {}});
  for (const std::string& name : names.summed) total.push_back({name, {}});
  for (std::size_t i = inputs.size(); i-- > 0;) {
    const Results back = run(inputs[i], at[i], at[i + 1], grad_state);
    for (NamedValues& result : total) {
      for (const std::string& name : names.of_tokens) {
        if (result.name == name) prepend(result.values, named(back, name));
      }
      for (const std::string& name : names.summed) {
        if (result.name != name) continue;
        const Values& part = named(back, name);
        result.values.resize(part.size());
        for (std::size_t j = 0; j < part.size(); ++j) {
          result.values[j] += part[j];
        }
      }
    }
    grad_state = named(back, "grad_" + names.start);
  }
  total.push_back({"grad_" + names.start, grad_state});
  return total;
}

TEST(Exactness, V3_delta_rule_in_pieces) {
  for (Gate gate : kGates) {
    DeltaRuleCase c = delta_rule_case(gate);
    c.lengths = {150};
    const DeltaRuleData data = make_delta_rule(c);
    const reference::DeltaRuleInput& in = data.in;
    const std::int64_t gate_row =
        static_cast<std::int64_t>(in.g.size()) / in.tokens();
    Pieces names{{"grad_q", "grad_k", "grad_k_write", "grad_v", "grad_beta"},
                 {},
                 "o",
                 "state_T",
                 "state0"};
    if (gate != Gate::kNone) names.of_tokens.push_back("grad_g");
    for (Precision precision : kPrecisions) {
      const auto cut = [&](std::int64_t first, std::int64_t last,
                           const Values& state) {
        reference::DeltaRuleInput piece = in;
        piece.cu_seqlens = {0, last - first};
        piece.q = rows_of(in.q, first, last, c.H * c.K);
        piece.k = rows_of(in.k, first, last, c.H * c.K);
        piece.k_write = rows_of(in.k_write, first, last, c.HV * c.K);
        piece.v = rows_of(in.v, first, last, c.HV * c.V);
        piece.beta = rows_of(in.beta, first, last, c.HV);
        piece.g = rows_of(in.g, first, last, gate_row);
        piece.state0 = state;
        return piece;
      };
      const auto run = [&](const reference::DeltaRuleInput& piece,
                           std::int64_t first, std::int64_t last,
                           const Values& grad_state) {
        return run_delta_rule(piece,
                              rows_of(data.grad_o, first, last, c.HV * c.V),
                              grad_state, with(precision));
      };
      const Results whole =
          run_delta_rule(in, data.grad_o, data.grad_state_T, with(precision));
      const auto pieces = [&](const std::vector<std::int64_t>& at) {
        return run_in_pieces<reference::DeltaRuleInput>(
            names, at, cut, run, in.state0, data.grad_state_T);
      };
      for (std::int64_t length : {1, 2, 3, 65, 0}) {
        EXPECT_EQ(differences(pieces(cuts(150, length)), whole,
                              precision == Precision::kFp64 ? 1e-12 : 1e-5),
                  "")
            << "pieces of " << length;
      }
      // A cut between two chunks changes nothing at all.
      EXPECT_EQ(bit_differences(pieces({0, 64, 128, 150}), whole), "");
    }
  }
}

TEST(Exactness, V3_preconditioner_in_pieces_is_the_same_to_the_bit) {
  PreconditionerCase c = preconditioner_case();
  c.lengths = {150};
  c.per_document = true;
  const PreconditionerData data = make_preconditioner(c);
  const reference::PreconditionerInput& in = data.in.recurrence;
  const Pieces names{
      {"d", "grad_k", "grad_beta", "grad_r"}, {}, "k_write", "d_T", "d0"};
  for (Precision precision : kPrecisions) {
    const auto cut = [&](std::int64_t first, std::int64_t last,
                         const Values& state) {
      reference::KeyWriteInput piece = data.in;
      piece.recurrence.cu_seqlens = {0, last - first};
      piece.recurrence.k = rows_of(in.k, first, last, c.H * c.K);
      piece.recurrence.beta = rows_of(in.beta, first, last, c.HV);
      piece.recurrence.r = rows_of(in.r, first, last, c.HV);
      piece.recurrence.d0 = state;
      return piece;
    };
    const auto run = [&](const reference::KeyWriteInput& piece,
                         std::int64_t first, std::int64_t last,
                         const Values& grad_state) {
      return run_preconditioner(
          piece, rows_of(data.grad_k_write, first, last, c.HV * c.K),
          grad_state, with(precision));
    };
    const Results whole = run_preconditioner(data.in, data.grad_k_write,
                                             data.grad_d_T, with(precision));
    for (std::int64_t length : {1, 2, 3, 64, 65, 0}) {
      EXPECT_EQ(bit_differences(run_in_pieces<reference::KeyWriteInput>(
                                    names, cuts(150, length), cut, run, in.d0,
                                    data.grad_d_T),
                                whole),
                "")
          << "pieces of " << length;
    }
  }
}

TEST(Exactness, V3_short_conv_in_pieces_shorter_than_the_taps) {
  for (std::int64_t taps : {2, 4, 8}) {
    ShortConvInput in = short_conv_input(taps);
    in.cu_seqlens = {0, 40};
    in.x.resize(static_cast<std::size_t>(40 * in.channels));
    in.state0.resize(static_cast<std::size_t>(in.channels * (taps - 1)));
    const Values grad_y = normal_values(5, 40 * in.channels);
    const Values grad_state = normal_values(6, in.channels * (taps - 1));
    const Pieces names{{"grad_x"}, {"grad_weight"}, "y", "state_T", "state0"};
    for (Precision precision : kPrecisions) {
      const auto cut = [&](std::int64_t first, std::int64_t last,
                           const Values& state) {
        ShortConvInput piece = in;
        piece.cu_seqlens = {0, last - first};
        piece.x = rows_of(in.x, first, last, in.channels);
        piece.state0 = state;
        return piece;
      };
      const auto run = [&](const ShortConvInput& piece, std::int64_t first,
                           std::int64_t last, const Values& grad) {
        return run_short_conv(piece, rows_of(grad_y, first, last, in.channels),
                              grad, with(precision));
      };
      const Results whole =
          run_short_conv(in, grad_y, grad_state, with(precision));
      for (std::int64_t length : {1, 2, 3, 5, 0}) {
        const Results got = run_in_pieces<ShortConvInput>(
            names, cuts(40, length), cut, run, in.state0, grad_state);
        EXPECT_EQ(differences(got, whole,
                              precision == Precision::kFp64 ? 1e-14 : 1e-6),
                  "")
            << "pieces of " << length << ", " << taps << " taps";
        EXPECT_EQ(first_difference(named(got, "y"), named(whole, "y")), -1);
        EXPECT_EQ(
            first_difference(named(got, "state_T"), named(whole, "state_T")),
            -1);
      }
    }
  }
}

}  // namespace
}  // namespace osdn::test
