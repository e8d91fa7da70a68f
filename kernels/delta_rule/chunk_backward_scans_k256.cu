// Instances of the backward's scans for key width 256.

#include "kernels/delta_rule/chunk_backward_scans.cuh"

namespace osdn::kernels::delta_rule::chunk {

void backward_scans_k256(const Args& args, Operands operands, bool states,
                         bool reverse, int, Stream stream) {
  for_operands(operands, [&]<Operands kOperands>() {
    launch_backward_scans<256, 8, kOperands>(args, states, reverse, stream);
  });
}

}  // namespace osdn::kernels::delta_rule::chunk
