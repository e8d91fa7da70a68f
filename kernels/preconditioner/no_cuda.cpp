// The launchers of preconditioner in a build without CUDA.

#include <stdexcept>

#include "kernels/preconditioner/preconditioner.cuh"

namespace osdn::kernels {
namespace {
constexpr const char* kReason =
    "this build has no CUDA kernels; configure with a CUDA compiler "
    "(-DOSDN_CUDA=ON) or run on the CPU";
}

const char* preconditioner_fwd_unsupported(const PreconditionerFwdParams&) {
  return kReason;
}
void preconditioner_fwd(const PreconditionerFwdParams&, Stream) {
  throw std::runtime_error(kReason);
}
std::int64_t preconditioner_bwd_workspace_bytes(
    const PreconditionerBwdParams&) {
  return 0;
}
const char* preconditioner_bwd_unsupported(const PreconditionerBwdParams&) {
  return kReason;
}
void preconditioner_bwd(const PreconditionerBwdParams&, Stream) {
  throw std::runtime_error(kReason);
}

}  // namespace osdn::kernels
