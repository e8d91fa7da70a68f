// Instances of the scan for key width 256.

#include "kernels/delta_rule/chunk_scan.cuh"

namespace osdn::kernels::delta_rule::chunk {

void scan_k256(const Args& args, Operands operands, int, Stream stream) {
  switch (operands) {
    case Operands::kRaw:
      return launch_scan<256, 8, Operands::kRaw>(args, stream);
    case Operands::kWriteKey:
      return launch_scan<256, 8, Operands::kWriteKey>(args, stream);
    case Operands::kDecayed:
      return launch_scan<256, 8, Operands::kDecayed>(args, stream);
  }
}

}  // namespace osdn::kernels::delta_rule::chunk
