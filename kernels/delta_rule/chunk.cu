// The chunk version: picks instances.

#include "kernels/common/launch.cuh"
#include "kernels/delta_rule/chunk_instances.h"

namespace osdn::kernels::delta_rule {
namespace {

/// Blocks of 128 value columns where that fills the device, else of 64. The
/// choice does not change a bit of the result.
int scan_warps(const Args& args) {
  const bool wide =
      args.V % 128 == 0 && args.N * args.HV * (args.V / 128) * 4 >=
                               static_cast<std::int64_t>(multiprocessors()) * 3;
  return wide ? 8 : 4;
}

void run_prepare(const Args& args, Element, Stream stream) {
  (args.K == 64 ? chunk::prepare_k64 : chunk::prepare_k128)(args, stream);
}
void run_scan(const Args& args, Element, Stream stream) {
  (args.K == 64 ? chunk::scan_k64 : chunk::scan_k128)(args, true,
                                                      scan_warps(args), stream);
}
void run_states(const Args& args, Element, Stream stream) {
  (args.K == 64 ? chunk::scan_k64 : chunk::scan_k128)(args, false,
                                                      scan_warps(args), stream);
}
void run_reverse(const Args& args, Element, Stream stream) {
  (args.K == 64 ? chunk::reverse_k64 : chunk::reverse_k128)(
      args, scan_warps(args), stream);
}
void run_gradients(const Args& args, Element, Stream stream) {
  (args.K == 64 ? chunk::gradients_k64 : chunk::gradients_k128)(args, stream);
}

}  // namespace

const Version kChunkVersion = {run_prepare, run_scan, run_states, run_reverse,
                               run_gradients};

}  // namespace osdn::kernels::delta_rule
