// Instances of the gradient kernel for key width 64.

#include "kernels/delta_rule/chunk_gradients.cuh"
#include "kernels/delta_rule/chunk_instances.h"

namespace osdn::kernels::delta_rule::chunk {

void gradients_k64(const Args& args, Stream stream) {
  if (args.HV > args.H) {
    args.separate_key ? launch_gradients<64, true, true>(args, stream)
                      : launch_gradients<64, false, true>(args, stream);
  } else {
    args.separate_key ? launch_gradients<64, true, false>(args, stream)
                      : launch_gradients<64, false, false>(args, stream);
  }
}

}  // namespace osdn::kernels::delta_rule::chunk
