// Instances of the scan for key width 256.

#include "kernels/delta_rule/chunk_scan.cuh"

namespace osdn::kernels::delta_rule::chunk {

void scan_k256(const Args& args, Operands operands, int, Stream stream) {
  for_operands(operands, [&]<Operands kOperands>() {
    launch_scan<256, 8, kOperands>(args, stream);
  });
}

}  // namespace osdn::kernels::delta_rule::chunk
