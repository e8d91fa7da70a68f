// Instances of the scan for key width 64.

#include "kernels/delta_rule/chunk_instances.h"
#include "kernels/delta_rule/chunk_scan.cuh"

namespace osdn::kernels::delta_rule::chunk {

void scan_k64(const Args& args, bool output, int warps, Stream stream) {
  const auto run = [&]<int kWarps, bool kSeparateKey>() {
    output ? launch_scan<64, kWarps, kSeparateKey, true>(args, stream)
           : launch_scan<64, kWarps, kSeparateKey, false>(args, stream);
  };
  if (warps == 8) {
    args.separate_key ? run.template operator()<8, true>()
                      : run.template operator()<8, false>();
  } else {
    args.separate_key ? run.template operator()<4, true>()
                      : run.template operator()<4, false>();
  }
}

}  // namespace osdn::kernels::delta_rule::chunk
