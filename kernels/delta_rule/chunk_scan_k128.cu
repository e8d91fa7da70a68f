// Instances of the scan for key width 128.

#include "kernels/delta_rule/chunk_scan.cuh"

namespace osdn::kernels::delta_rule::chunk {

void scan_k128(const Args& args, Operands operands, int warps, Stream stream) {
  const auto run = [&]<Operands kOperands>() {
    warps == 8 ? launch_scan<128, 8, kOperands>(args, stream)
               : launch_scan<128, 4, kOperands>(args, stream);
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
