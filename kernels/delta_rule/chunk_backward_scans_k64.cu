// Instances of the backward's scans for key width 64.

#include "kernels/delta_rule/chunk_backward_scans.cuh"

namespace osdn::kernels::delta_rule::chunk {

void backward_scans_k64(const Args& args, Operands operands, bool states,
                        bool reverse, int warps, Stream stream) {
  for_operands(operands, [&]<Operands kOperands>() {
    warps == 8
        ? launch_backward_scans<64, 8, kOperands>(args, states, reverse, stream)
        : launch_backward_scans<64, 4, kOperands>(args, states, reverse,
                                                  stream);
  });
}

}  // namespace osdn::kernels::delta_rule::chunk
