// The chunk version: picks instances.

#include "kernels/common/launch.cuh"
#include "kernels/delta_rule/chunk_instances.h"

namespace osdn::kernels::delta_rule {
namespace {

/// Blocks of 128 value columns where that fills the device, else of 64. The
/// choice does not change a bit of the result. K = 256 takes 8 warps for 64.
int scan_warps(const Args& args) {
  if (args.K == 256) return 8;
  const bool wide =
      args.V % 128 == 0 && args.N * args.HV * (args.V / 128) * 4 >=
                               static_cast<std::int64_t>(multiprocessors()) * 3;
  return wide ? 8 : 4;
}

bool per_channel(const Args& args) {
  return args.gate == DeltaRuleGate::kPerChannel;
}

chunk::Operands operands(const Args& args) {
  if (per_channel(args)) return chunk::Operands::kDecayed;
  return args.separate_key ? chunk::Operands::kWriteKey : chunk::Operands::kRaw;
}

/// The one of three functions that is compiled for the key width.
template <typename Function>
Function* by_key_width(const Args& args, Function* k64, Function* k128,
                       Function* k256) {
  return args.K == 64 ? k64 : args.K == 128 ? k128 : k256;
}

void run_prepare(const Args& args, Element, Stream stream) {
  (per_channel(args)
       ? by_key_width(args, chunk::prepare_channel_k64,
                      chunk::prepare_channel_k128, chunk::prepare_channel_k256)
       : by_key_width(args, chunk::prepare_k64, chunk::prepare_k128,
                      chunk::prepare_k256))(args, stream);
}
void run_scan(const Args& args, Element, Stream stream) {
  by_key_width(args, chunk::scan_k64, chunk::scan_k128, chunk::scan_k256)(
      args, operands(args), scan_warps(args), stream);
}
void run_backward_scans(const Args& args, Element, bool states, bool reverse,
                        Stream stream) {
  by_key_width(args, chunk::backward_scans_k64, chunk::backward_scans_k128,
               chunk::backward_scans_k256)(args, operands(args), states,
                                           reverse, scan_warps(args), stream);
}
void run_gradients(const Args& args, Element, Stream stream) {
  (per_channel(args)
       ? by_key_width(args, chunk::gradients_channel_k64,
                      chunk::gradients_channel_k128,
                      chunk::gradients_channel_k256)
       : by_key_width(args, chunk::gradients_k64, chunk::gradients_k128,
                      chunk::gradients_k256))(args, stream);
}

}  // namespace

std::int64_t gradient_blocks(std::int64_t items) {
  const std::int64_t blocks = multiprocessors();
  return items < blocks ? items : blocks;
}

const Version kChunkVersion = {run_prepare, run_scan, run_backward_scans,
                               run_gradients};

}  // namespace osdn::kernels::delta_rule
