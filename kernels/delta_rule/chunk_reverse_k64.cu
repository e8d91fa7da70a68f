// Instances of the reverse scan for key width 64.

#include "kernels/delta_rule/chunk_instances.h"
#include "kernels/delta_rule/chunk_reverse.cuh"

namespace osdn::kernels::delta_rule::chunk {

void reverse_k64(const Args& args, int warps, Stream stream) {
  if (warps == 8) {
    args.separate_key ? launch_reverse<64, 8, true>(args, stream)
                      : launch_reverse<64, 8, false>(args, stream);
  } else {
    args.separate_key ? launch_reverse<64, 4, true>(args, stream)
                      : launch_reverse<64, 4, false>(args, stream);
  }
}

}  // namespace osdn::kernels::delta_rule::chunk
