// The launcher of pack in a build without CUDA.

#include <stdexcept>

#include "kernels/pack/pack.cuh"

namespace osdn::kernels {
namespace {
constexpr const char* kReason =
    "this build has no CUDA kernels; configure with a CUDA compiler "
    "(-DOSDN_CUDA=ON) or run on the CPU";
}

const char* pack_unsupported(const PackParams&) {
  return kReason;
}
void pack(const PackParams&, Stream) {
  throw std::runtime_error(kReason);
}

}  // namespace osdn::kernels
