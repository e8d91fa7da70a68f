// The launchers of short_conv in a build without CUDA.

#include <stdexcept>

#include "kernels/short_conv/short_conv.cuh"

namespace osdn::kernels {
namespace {
constexpr const char* kReason =
    "this build has no CUDA kernels; configure with a CUDA compiler "
    "(-DOSDN_CUDA=ON) or run on the CPU";
}

const char* short_conv_fwd_unsupported(const ShortConvFwdParams&) {
  return kReason;
}
void short_conv_fwd(const ShortConvFwdParams&, Stream) {
  throw std::runtime_error(kReason);
}
std::int64_t short_conv_bwd_workspace_bytes(const ShortConvBwdParams&) {
  return 0;
}
const char* short_conv_bwd_unsupported(const ShortConvBwdParams&) {
  return kReason;
}
void short_conv_bwd(const ShortConvBwdParams&, Stream) {
  throw std::runtime_error(kReason);
}

}  // namespace osdn::kernels
