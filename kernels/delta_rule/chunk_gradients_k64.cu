// Instances of the gradient kernel for key width 64, one log decay a head.

#include "kernels/delta_rule/chunk_gradients.cuh"

namespace osdn::kernels::delta_rule::chunk {

void gradients_k64(const Args& args, Stream stream) {
  if (args.HV > args.H) {
    args.separate_key ? launch_gradients<64, true, true, false>(args, stream)
                      : launch_gradients<64, false, true, false>(args, stream);
  } else {
    args.separate_key ? launch_gradients<64, true, false, false>(args, stream)
                      : launch_gradients<64, false, false, false>(args, stream);
  }
}

}  // namespace osdn::kernels::delta_rule::chunk
