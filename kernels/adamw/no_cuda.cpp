// The launchers of adamw in a build without CUDA.

#include <stdexcept>

#include "kernels/adamw/adamw.cuh"

namespace osdn::kernels {
namespace {
constexpr const char* kReason =
    "this build has no CUDA kernels; configure with a CUDA compiler "
    "(-DOSDN_CUDA=ON) or run on the CPU";
}

std::vector<std::byte> adamw_pack_table(const std::vector<AdamWTensor>&,
                                        AdamWTable&) {
  throw std::runtime_error(kReason);
}
std::int64_t global_norm_workspace_bytes(const GlobalNormParams&) {
  return 0;
}
const char* global_norm_unsupported(const GlobalNormParams&) {
  return kReason;
}
void global_norm(const GlobalNormParams&, Stream) {
  throw std::runtime_error(kReason);
}
const char* adamw_unsupported(const AdamWParams&) {
  return kReason;
}
void adamw(const AdamWParams&, Stream) {
  throw std::runtime_error(kReason);
}

}  // namespace osdn::kernels
