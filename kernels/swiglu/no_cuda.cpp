// The launchers of swiglu in a build without CUDA.

#include <stdexcept>

#include "kernels/swiglu/swiglu.cuh"

namespace osdn::kernels {
namespace {
constexpr const char* kReason =
    "this build has no CUDA kernels; configure with a CUDA compiler "
    "(-DOSDN_CUDA=ON) or run on the CPU";
}

const char* swiglu_fwd_unsupported(const SwigluFwdParams&) {
  return kReason;
}
void swiglu_fwd(const SwigluFwdParams&, Stream) {
  throw std::runtime_error(kReason);
}
const char* swiglu_bwd_unsupported(const SwigluBwdParams&) {
  return kReason;
}
void swiglu_bwd(const SwigluBwdParams&, Stream) {
  throw std::runtime_error(kReason);
}

}  // namespace osdn::kernels
