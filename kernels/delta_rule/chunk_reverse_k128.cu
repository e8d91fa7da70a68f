// Instances of the reverse scan for key width 128.

#include "kernels/delta_rule/chunk_instances.h"
#include "kernels/delta_rule/chunk_reverse.cuh"

namespace osdn::kernels::delta_rule::chunk {

void reverse_k128(const Args& args, int warps, Stream stream) {
  if (warps == 8) {
    args.separate_key ? launch_reverse<128, 8, true>(args, stream)
                      : launch_reverse<128, 8, false>(args, stream);
  } else {
    args.separate_key ? launch_reverse<128, 4, true>(args, stream)
                      : launch_reverse<128, 4, false>(args, stream);
  }
}

}  // namespace osdn::kernels::delta_rule::chunk
