// The launchers of gates in a build without CUDA.

#include <stdexcept>

#include "kernels/gates/gates.cuh"

namespace osdn::kernels {
namespace {
constexpr const char* kReason =
    "this build has no CUDA kernels; configure with a CUDA compiler "
    "(-DOSDN_CUDA=ON) or run on the CPU";
}

const char* gate_fwd_unsupported(const GateFwdParams&) {
  return kReason;
}
void gate_fwd(const GateFwdParams&, Stream) {
  throw std::runtime_error(kReason);
}
std::int64_t gate_bwd_workspace_bytes(const GateBwdParams&) {
  return 0;
}
const char* gate_bwd_unsupported(const GateBwdParams&) {
  return kReason;
}
void gate_bwd(const GateBwdParams&, Stream) {
  throw std::runtime_error(kReason);
}

}  // namespace osdn::kernels
