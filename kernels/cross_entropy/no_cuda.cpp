// The launchers of cross_entropy in a build without CUDA.

#include <stdexcept>

#include "kernels/cross_entropy/cross_entropy.cuh"

namespace osdn::kernels {
namespace {
constexpr const char* kReason =
    "this build has no CUDA kernels; configure with a CUDA compiler "
    "(-DOSDN_CUDA=ON) or run on the CPU";
}

const char* cross_entropy_unsupported(const CrossEntropyParams&) {
  return kReason;
}
void cross_entropy(const CrossEntropyParams&, Stream) {
  throw std::runtime_error(kReason);
}

}  // namespace osdn::kernels
