// Instances of the backward's scans for key width 256.

#include "kernels/delta_rule/chunk_backward_scans.cuh"

namespace osdn::kernels::delta_rule::chunk {

void backward_scans_k256(const Args& args, Operands operands, bool states,
                         bool reverse, int, Stream stream) {
  const auto run = [&]<Operands kOperands>() {
    launch_backward_scans<256, 8, kOperands>(args, states, reverse, stream);
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
