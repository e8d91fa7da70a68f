#pragma once
// B1 and B2 in one launch: they do not depend on each other, so with few heads
// they run side by side on different multiprocessors.

#include "kernels/delta_rule/chunk_reverse.cuh"
#include "kernels/delta_rule/chunk_scan.cuh"

namespace osdn::kernels::delta_rule::chunk {

struct BackwardScansArgs {
  Args args;
  bool states, reverse;  ///< which of them to run
};

template <int K, int kWarps, Operands kOperands>
__global__ void __launch_bounds__(32 * kWarps)
    backward_scans(const BackwardScansArgs scans) {
  const unsigned block = blockIdx.x;
  const unsigned units =
      scans.states && scans.reverse ? gridDim.x / 2 : gridDim.x;
  if (scans.reverse && block < units) {  // the longer one starts first
    run_reverse<K, kWarps, kOperands>(scans.args, block);
  } else {
    run_scan<K, kWarps, kOperands, false>(scans.args, block % units);
  }
}

template <int K, int kWarps, Operands kOperands>
void launch_backward_scans(const Args& args, bool states, bool reverse,
                           Stream stream) {
  using States = Scan<K, kWarps, kOperands, false>;
  using Back = Reverse<K, kWarps, kOperands>;
  const std::int64_t units = args.N * args.HV * (args.V / Back::kCols);
  launch("delta_rule backward_scans", backward_scans<K, kWarps, kOperands>,
         states && reverse ? 2 * units : units, Back::kThreads,
         States::kSharedBytes > Back::kSharedBytes ? States::kSharedBytes
                                                   : Back::kSharedBytes,
         stream, BackwardScansArgs{args, states, reverse});
}

}  // namespace osdn::kernels::delta_rule::chunk
