// Instances of the backward's scans for key width 64.

#include "kernels/delta_rule/chunk_backward_scans.cuh"

namespace osdn::kernels::delta_rule::chunk {

void backward_scans_k64(const Args& args, Operands operands, bool states,
                        bool reverse, int warps, Stream stream) {
  const auto run = [&]<Operands kOperands>() {
    warps == 8
        ? launch_backward_scans<64, 8, kOperands>(args, states, reverse, stream)
        : launch_backward_scans<64, 4, kOperands>(args, states, reverse,
                                                  stream);
  };
  switch (operands) {
    case Operands::kRaw:
      return run.template operator()<Operands::kRaw>();
    case Operands::kWriteKey:
      return run.template operator()<Operands::kWriteKey>();
    case Operands::kDecayed:
      return run.template operator()<Operands::kDecayed>();
  }
}

}  // namespace osdn::kernels::delta_rule::chunk
