// The launcher of shard_sum in a build without CUDA.

#include <stdexcept>

#include "kernels/shard_sum/shard_sum.cuh"

namespace osdn::kernels {
namespace {
constexpr const char* kReason =
    "this build has no CUDA kernels; configure with a CUDA compiler "
    "(-DOSDN_CUDA=ON) or run on the CPU";
}

const char* shard_sum_unsupported(const ShardSumParams&) {
  return kReason;
}
void shard_sum(const ShardSumParams&, Stream) {
  throw std::runtime_error(kReason);
}

}  // namespace osdn::kernels
