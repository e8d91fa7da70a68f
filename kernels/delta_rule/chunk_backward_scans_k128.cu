// Instances of the backward's scans for key width 128.

#include "kernels/delta_rule/chunk_backward_scans.cuh"

namespace osdn::kernels::delta_rule::chunk {

void backward_scans_k128(const Args& args, Operands operands, bool states,
                         bool reverse, int warps, Stream stream) {
  for_operands(operands, [&]<Operands kOperands>() {
    warps == 8 ? launch_backward_scans<128, 8, kOperands>(args, states, reverse,
                                                          stream)
               : launch_backward_scans<128, 4, kOperands>(args, states, reverse,
                                                          stream);
  });
}

}  // namespace osdn::kernels::delta_rule::chunk
