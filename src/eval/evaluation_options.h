#pragma once
// The options of a call, checked and read.

#include <cstdint>
#include <optional>
#include <string_view>

#include "osdn/eval/options.h"
#include "osdn/ops/compute_choice.h"

namespace osdn::eval {

/// Device and type of a model that is not the dummy.
ops::ComputeChoice compute_of(const EvalOptions& options);

/// Throws Error (kUsage) naming the first option that is wrong. Tasks and what
/// a machine or a checkpoint decides are checked elsewhere.
void check_options(const EvalOptions& options);

/// For calls in which no model computes anything: throws Error (kUsage) naming
/// the first option given that says how. `instead` is what the call does.
void refuse_computing_options(const EvalOptions& options,
                              std::string_view instead);

/// --max-len: a number, or nothing for "none" and "".
std::optional<std::int64_t> parse_max_len(const std::string& text);

}  // namespace osdn::eval
