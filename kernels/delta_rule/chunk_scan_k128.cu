// Instances of the scan for key width 128.

#include "kernels/delta_rule/chunk_scan.cuh"

namespace osdn::kernels::delta_rule::chunk {

void scan_k128(const Args& args, Operands operands, int warps, Stream stream) {
  for_operands(operands, [&]<Operands kOperands>() {
    warps == 8 ? launch_scan<128, 8, kOperands>(args, stream)
               : launch_scan<128, 4, kOperands>(args, stream);
  });
}

}  // namespace osdn::kernels::delta_rule::chunk
