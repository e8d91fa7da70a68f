#pragma once
// The delta rule on a GPU: kernels/delta_rule behind autograd.

#include "delta_rule_cpu.h"
#include "osdn/ops/delta_rule.h"

namespace osdn::ops {

/// As delta_rule, for inputs that are checked already; `keep`: a gradient will
/// be asked for.
DeltaRuleOutput delta_rule_cuda(const DeltaRuleInputs& inputs,
                                const Documents& documents,
                                const DeltaRuleSizes& sizes, bool keep);

}  // namespace osdn::ops
