// The launchers of norm in a build without CUDA.

#include <stdexcept>

#include "kernels/norm/gated_norm.cuh"
#include "kernels/norm/rms_norm.cuh"

namespace osdn::kernels {
namespace {
constexpr const char* kReason =
    "this build has no CUDA kernels; configure with a CUDA compiler "
    "(-DOSDN_CUDA=ON) or run on the CPU";
}

const char* rms_norm_fwd_unsupported(const RmsNormFwdParams&) {
  return kReason;
}
void rms_norm_fwd(const RmsNormFwdParams&, Stream) {
  throw std::runtime_error(kReason);
}
std::int64_t rms_norm_bwd_workspace_bytes(const RmsNormBwdParams&) {
  return 0;
}
const char* rms_norm_bwd_unsupported(const RmsNormBwdParams&) {
  return kReason;
}
void rms_norm_bwd(const RmsNormBwdParams&, Stream) {
  throw std::runtime_error(kReason);
}
const char* gated_norm_fwd_unsupported(const GatedNormFwdParams&) {
  return kReason;
}
void gated_norm_fwd(const GatedNormFwdParams&, Stream) {
  throw std::runtime_error(kReason);
}
std::int64_t gated_norm_bwd_workspace_bytes(const GatedNormBwdParams&) {
  return 0;
}
const char* gated_norm_bwd_unsupported(const GatedNormBwdParams&) {
  return kReason;
}
void gated_norm_bwd(const GatedNormBwdParams&, Stream) {
  throw std::runtime_error(kReason);
}

}  // namespace osdn::kernels
