// Instances of the gradient kernel for key width 128.

#include "kernels/delta_rule/chunk_gradients.cuh"
#include "kernels/delta_rule/chunk_instances.h"

namespace osdn::kernels::delta_rule::chunk {

void gradients_k128(const Args& args, Stream stream) {
  if (args.HV > args.H) {
    args.separate_key ? launch_gradients<128, true, true>(args, stream)
                      : launch_gradients<128, false, true>(args, stream);
  } else {
    args.separate_key ? launch_gradients<128, true, false>(args, stream)
                      : launch_gradients<128, false, false>(args, stream);
  }
}

}  // namespace osdn::kernels::delta_rule::chunk
