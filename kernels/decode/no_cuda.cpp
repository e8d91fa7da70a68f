// The launcher of the decoding step in a build without CUDA.

#include <stdexcept>

#include "kernels/decode/decode.cuh"

namespace osdn::kernels {
namespace {
constexpr const char* kReason =
    "this build has no CUDA kernels; configure with a CUDA compiler "
    "(-DOSDN_CUDA=ON) or run on the CPU";
}

const char* decode_unsupported(const DecodeParams&) {
  return kReason;
}
void decode(const DecodeParams&, Stream) {
  throw std::runtime_error(kReason);
}

}  // namespace osdn::kernels
