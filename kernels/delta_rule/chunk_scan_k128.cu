// Instances of the scan for key width 128.

#include "kernels/delta_rule/chunk_instances.h"
#include "kernels/delta_rule/chunk_scan.cuh"

namespace osdn::kernels::delta_rule::chunk {

void scan_k128(const Args& args, Operands operands, bool output, int warps,
               Stream stream) {
  const auto run = [&]<int kWarps, Operands kOperands>() {
    output ? launch_scan<128, kWarps, kOperands, true>(args, stream)
           : launch_scan<128, kWarps, kOperands, false>(args, stream);
  };
  const auto run_warps = [&]<Operands kOperands>() {
    warps == 8 ? run.template operator()<8, kOperands>()
               : run.template operator()<4, kOperands>();
  };
  switch (operands) {
    case Operands::kRaw:
      return run_warps.template operator()<Operands::kRaw>();
    case Operands::kWriteKey:
      return run_warps.template operator()<Operands::kWriteKey>();
    case Operands::kDecayed:
      return run_warps.template operator()<Operands::kDecayed>();
  }
}

}  // namespace osdn::kernels::delta_rule::chunk
