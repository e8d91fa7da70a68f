// Instances of the gradient kernel for key width 128, one log decay a channel.

#include "kernels/delta_rule/chunk_gradients.cuh"

namespace osdn::kernels::delta_rule::chunk {

void gradients_channel_k128(const Args& args, Stream stream) {
  if (args.HV > args.H) {
    args.separate_key ? launch_gradients<128, true, true, true>(args, stream)
                      : launch_gradients<128, false, true, true>(args, stream);
  } else {
    args.separate_key ? launch_gradients<128, true, false, true>(args, stream)
                      : launch_gradients<128, false, false, true>(args, stream);
  }
}

}  // namespace osdn::kernels::delta_rule::chunk
