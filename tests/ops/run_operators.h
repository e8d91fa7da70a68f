#pragma once
// The operators on plain vectors, forward and backward through LibTorch's
// autograd. Tests that compare with a reference need no LibTorch header.

#include <cstdint>
#include <string>
#include <vector>

#include "reference/delta_rule_reference.h"
#include "reference/key_write_reference.h"

namespace osdn::test {

using Values = std::vector<double>;

enum class Precision { kFp64, kFp32 };

/// How the tensors that are handed in lie in memory; kSliced is a view with
/// NaN on all sides and between its elements.
enum class Layout { kContiguous, kTransposed, kSliced };

struct RunOptions {
  Precision precision = Precision::kFp64;
  Layout layout = Layout::kContiguous;
  int threads = 1;
  /// The upstream gradient is ones of zero stride, as sum().backward() gives;
  /// the gradients passed in are not used.
  bool expanded_upstream = false;
};

/// Results by name: outputs under their own, gradients as grad_<input>.
/// An input that is absent has no gradient here.
struct NamedValues {
  std::string name;
  Values values;
};
using Results = std::vector<NamedValues>;

const Values& named(const Results& results, const std::string& name);

/// An empty upstream gradient leaves that output out of the backward; with
/// both empty there is no backward.
Results run_delta_rule(const reference::DeltaRuleInput& in,
                       const Values& grad_o, const Values& grad_state_T,
                       const RunOptions& options = {});
Results run_preconditioner(const reference::KeyWriteInput& in,
                           const Values& grad_k_write, const Values& grad_d_T,
                           const RunOptions& options = {});

/// The same from the references, in float64.
Results reference_delta_rule(const reference::DeltaRuleInput& in,
                             const Values& grad_o, const Values& grad_state_T);
Results reference_preconditioner(const reference::KeyWriteInput& in,
                                 const Values& grad_k_write,
                                 const Values& grad_d_T);

/// Preconditioner, then delta rule with its write key: k and beta of `in` go
/// to both.
Results run_layer_core(const reference::DeltaRuleInput& in,
                       const reference::KeyWriteInput& write,
                       const Values& grad_o, const Values& grad_state_T,
                       const RunOptions& options = {});

struct ShortConvInput {
  std::int64_t channels = 1, taps = 1;
  bool silu = true;
  std::vector<std::int64_t> cu_seqlens;
  Values x;       ///< [T,C]
  Values weight;  ///< [C,1,W]
  Values state0;  ///< empty or [N,C,W-1]
};
Results run_short_conv(const ShortConvInput& in, const Values& grad_y,
                       const Values& grad_state_T,
                       const RunOptions& options = {});

struct HeadLossInput {
  std::int64_t width = 1, vocab = 1;
  Values hidden;  ///< [T,h]
  Values weight;  ///< [vocab,h]
  std::vector<std::int64_t> labels;
  std::int64_t chunk_tokens = 0;
};
/// Also "log_prob" and "greedy" (0 or 1) from linear_token_scores.
Results run_head_loss(const HeadLossInput& in, double upstream_factor,
                      const RunOptions& options = {});

}  // namespace osdn::test
