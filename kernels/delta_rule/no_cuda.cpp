// The delta rule's launchers in a build without CUDA.

#include <stdexcept>

#include "kernels/delta_rule/delta_rule.cuh"

namespace osdn::kernels {
namespace {
constexpr const char* kReason =
    "this build has no CUDA kernels; configure with a CUDA compiler "
    "(-DOSDN_CUDA=ON) or run on the CPU";
}

std::int64_t delta_rule_saved_bytes(const DeltaRuleInputs&) {
  return 0;
}
std::int64_t delta_rule_fwd_workspace_bytes(const DeltaRuleFwdParams&) {
  return 0;
}
std::int64_t delta_rule_bwd_workspace_bytes(const DeltaRuleBwdParams&) {
  return 0;
}
const char* delta_rule_unsupported(const DeltaRuleInputs&) {
  return kReason;
}
void delta_rule_fwd(const DeltaRuleFwdParams&, Stream) {
  throw std::runtime_error(kReason);
}
void delta_rule_bwd(const DeltaRuleBwdParams&, Stream) {
  throw std::runtime_error(kReason);
}

}  // namespace osdn::kernels
