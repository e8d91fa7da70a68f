// Instances of the scan for key width 64.

#include "kernels/delta_rule/chunk_scan.cuh"

namespace osdn::kernels::delta_rule::chunk {

void scan_k64(const Args& args, Operands operands, int warps, Stream stream) {
  for_operands(operands, [&]<Operands kOperands>() {
    warps == 8 ? launch_scan<64, 8, kOperands>(args, stream)
               : launch_scan<64, 4, kOperands>(args, stream);
  });
}

}  // namespace osdn::kernels::delta_rule::chunk
